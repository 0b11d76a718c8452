package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// Every name of the root package that a document writes as `trinity.Name` exists.
func TestNamesOfTheRootPackageExist(t *testing.T) {
	root := repository(t)
	files, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	name := regexp.MustCompile("`trinity\\.([A-Z]\\w*)")
	for _, path := range documents(t, root) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range name.FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`(?m)^(type|func|\t)\s*` + found[1] + `\b`).MatchString(source.String()) {
				t.Errorf("%s: package trinity has no %s", path, found[1])
			}
		}
	}
}
