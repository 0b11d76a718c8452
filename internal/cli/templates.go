package cli

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/examples"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/registry"
)

// templates returns the configurations that the studio offers to begin with: those of trinity init, and
// the examples.
func templates() (all []studio.Template, err error) {
	for _, kind := range taskKinds {
		b := beginning{File: kind[0] + ".yaml", Model: "MODEL", Data: "data.jsonl", Task: kind[0], Prompt: "question", Answer: "answer"}
		b.Program = "reward.py"
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
		if err != nil || path.Ext(name) != ".yaml" || strings.HasPrefix(name, "own_") { // those have programs with plug-ins of their own
			return err
		}
		text, err := fs.ReadFile(examples.Configs, name)
		if err == nil {
			all = append(all, exampleTemplate(name, string(text)))
		}
		return err
	})
}

func templatesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "templates [NAME]",
		Short: "List configurations to begin with by what they teach, or print one",
		Long: "List the configurations of trinity init and the examples: what each shows, which model it trains, and\n" +
			"the minutes of CPU that were measured, of which two cores need about half. With a name, print that\n" +
			"configuration: trinity templates quickstart > my.yaml. docs/guide/recipes.md has their curves.",
		Args: wantAtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := templates()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return listTemplates(cmd.OutOrStdout(), all)
			}
			var names []string
			for _, t := range all {
				if names = append(names, t.Name); t.Name == args[0] {
					_, err := fmt.Fprint(cmd.OutOrStdout(), t.Text)
					return err
				}
			}
			hint := "trinity templates lists them"
			if near := registry.Nearest(args[0], names); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return fmt.Errorf("there is no template %q: %s", args[0], hint)
		},
	}
}

// topicLines say what templates teach: a topic a line, and the folders of its templates. A template belongs to
// the topic that has its folder, else to the first, which is that of trinity init.
//
//go:embed init/topics.txt
var topicLines string

// manyAlike is a number of templates in a folder that are listed by their names alone.
const manyAlike = 12

// listTemplates prints the templates by what they teach.
func listTemplates(out io.Writer, all []studio.Template) error {
	width := pageWidth(out)
	var text strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(topicLines), "\n") {
		title, _, _ := strings.Cut(line, ":")
		fmt.Fprintf(&text, "%s\n", title)
		byFolder := map[string][]string{}
		for _, t := range all {
			folder, base := path.Split(t.Name)
			if topicOf(t.Name) == i {
				byFolder[folder] = append(byFolder[folder], base)
			}
		}
		for _, t := range all {
			folder, base := path.Split(t.Name)
			switch alike := byFolder[folder]; {
			case topicOf(t.Name) != i || folder != "" && len(alike) > manyAlike && base != alike[0]:
			case folder != "" && len(alike) > manyAlike:
				describe(&text, width, folder+"NAME", strings.Join(alike, ", "))
			default:
				describe(&text, width, t.Name, firstSentence(t.Doc, 2*width), t.Model, cpuMinutes(t.Minutes))
			}
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// describe writes a name with facts on a line, and a text below.
func describe(out *strings.Builder, width int, name, text string, facts ...string) {
	facts = slices.DeleteFunc(facts, func(f string) bool { return f == "" })
	fmt.Fprintf(out, "  %s\n", strings.Join(append([]string{name}, facts...), "  ·  "))
	for _, line := range fold(text, width-6) {
		fmt.Fprintf(out, "      %s\n", line)
	}
}

// cpuMinutes writes minutes of CPU with two digits that count; "" if they are not known.
func cpuMinutes(m float64) string {
	switch {
	case m == 0:
		return ""
	case m < 10:
		return fmt.Sprintf("%.1f min of CPU", m)
	}
	return fmt.Sprintf("%.0f min of CPU", m)
}

// topicOf returns the number of a template's topic.
func topicOf(name string) int {
	folder, _, _ := strings.Cut(name, "/")
	return max(0, slices.IndexFunc(strings.Split(strings.TrimSpace(topicLines), "\n"), func(line string) bool {
		_, folders, _ := strings.Cut(line, ":")
		return slices.Contains(strings.Fields(folders), folder)
	}))
}

var (
	// rootLine is where an example writes. A run of the studio is below the studio's directory.
	rootLine = regexp.MustCompile(`(?m)^checkpoint_root_dir: .*\n`)
	// examplePath finds the data and models of an example, which are files of the repository.
	// modelLine names the model; the last part of its path is a name for people.
	modelLine   = regexp.MustCompile(`(?m)model_path: (\S+)`)
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
	if of := modelLine.FindStringSubmatch(text); of != nil {
		if t.Model = path.Base(strings.Trim(of[1], `"'},`)); t.Model == "model" { // a configuration without weights
			t.Model = "made from scratch"
		}
	}
	var results struct {
		Recipe struct {
			Config  string
			Minutes float64 `json:"cpu_minutes"`
		}
	}
	data, err := fs.ReadFile(examples.Configs, path.Join(path.Dir(name), "results.json"))
	if err == nil && json.Unmarshal(data, &results) == nil && results.Recipe.Config == path.Base(name) {
		t.Minutes = results.Recipe.Minutes
	}
	slices.Sort(t.Files)
	t.Files = slices.Compact(t.Files)
	return t
}
