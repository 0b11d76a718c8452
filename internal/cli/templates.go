package cli

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/examples"
	"github.com/trinity-go/trinity/internal/serve/studio"
)

// templates returns the configurations that the studio offers to begin with: those of trinity init, and
// the examples.
func templates() (all []studio.Template, err error) {
	for _, kind := range taskKinds {
		b := beginning{File: kind[0] + ".yaml", Model: "MODEL", Data: "data.jsonl", Task: kind[0], Prompt: "question", Answer: "answer"}
		if err := b.decide(texts{}); err != nil {
			return nil, err
		}
		text, err := b.render()
		if err != nil {
			return nil, err
		}
		all = append(all, studio.Template{Name: kind[0], Doc: kind[1], Text: string(text)})
	}
	return all, fs.WalkDir(examples.Configs, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "own_") { // those have programs with plug-ins of their own
			return err
		}
		text, err := fs.ReadFile(examples.Configs, name)
		if err == nil {
			all = append(all, exampleTemplate(name, string(text)))
		}
		return err
	})
}

var (
	// rootLine is where an example writes. A run of the studio is below the studio's directory.
	rootLine = regexp.MustCompile(`(?m)^checkpoint_root_dir: .*\n`)
	// examplePath finds the data and models of an example, which are files of the repository.
	examplePath = regexp.MustCompile(`\bexamples/[\w./-]*\w`)
)

// exampleTemplate returns an example as a template. Its doc is the comment with which the file begins.
func exampleTemplate(name, text string) studio.Template {
	t := studio.Template{Name: strings.TrimSuffix(name, ".yaml"), Text: rootLine.ReplaceAllString(text, "")}
	if dir, base := path.Split(t.Name); path.Base(dir) == base || base == "run" {
		t.Name = strings.TrimSuffix(dir, "/")
	}
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		t.Doc = strings.TrimSpace(t.Doc + " " + strings.TrimSpace(comment))
	}
	for line := range strings.Lines(text) {
		setting, _, _ := strings.Cut(line, " #")
		if !strings.HasPrefix(setting, "#") {
			t.Files = append(t.Files, examplePath.FindAllString(setting, -1)...)
		}
	}
	slices.Sort(t.Files)
	t.Files = slices.Compact(t.Files)
	return t
}
