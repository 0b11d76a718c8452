package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	named  = regexp.MustCompile(`failpoint\.New\("([^"]+)"\)`)
	listed = regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\|")
)

// docs/operate/crash.md lists exactly the failpoints of the code.
func TestFailpointsAreDocumented(t *testing.T) {
	root := repository(t)
	var inCode []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		inCode = append(inCode, names(named, text)...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "operate", "crash.md"))
	if err != nil {
		t.Fatal(err)
	}
	inPage := names(listed, text)
	for _, name := range inCode {
		if !slices.Contains(inPage, name) {
			t.Errorf("docs/operate/crash.md does not list the failpoint %s", name)
		}
	}
	for _, name := range inPage {
		if !slices.Contains(inCode, name) {
			t.Errorf("docs/operate/crash.md lists %s, which is not a failpoint of the code", name)
		}
	}
	if len(inCode) == 0 {
		t.Error("no failpoint was found in the code")
	}
}

// names returns the first group of each match.
func names(pattern *regexp.Regexp, text []byte) (out []string) {
	for _, m := range pattern.FindAllSubmatch(text, -1) {
		out = append(out, string(m[1]))
	}
	return out
}
