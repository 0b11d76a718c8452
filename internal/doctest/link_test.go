package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Files of the repository to which documents link exist.
func TestLinkedFilesExist(t *testing.T) {
	root := repository(t)
	for _, path := range append(documents(t, root), filepath.Join(root, "AGENTS.md"), filepath.Join(root, "CHANGELOG.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			}
		}
	}
}
