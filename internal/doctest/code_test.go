package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every ```go block of the documents is code of the repository, where it compiles and has tests.
func TestGoBlocksAreCodeOfTheRepository(t *testing.T) {
	root := repository(t)
	sources := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		sources[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range documents(t, root) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks(string(text)) {
			if b.lang == "go" && !quoted(sources, strings.Join(b.lines, "\n")) {
				t.Errorf("%s:%d: this code is in no file of the repository", path, b.line)
			}
		}
	}
}

func quoted(sources map[string]string, code string) bool {
	for _, text := range sources {
		if strings.Contains(text, code) {
			return true
		}
	}
	return false
}
