package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The schema is the source of docs/reference/configuration.md.
func TestReferenceInDocs(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "configuration.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- reference: written by go test ./internal/config -update -->\n"
	head, body, ok := strings.Cut(string(page), mark)
	if !ok {
		t.Fatalf("%s has no line %s", path, mark)
	}
	text, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	const pages = "\n<!-- pages:" // internal/doctest writes what follows
	_, end, _ := strings.Cut(body, pages)
	golden(t, path, head+mark+"\n"+text+pages+end)
}

// The example of stages on the page loads.
func TestExampleInDocs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, stages, _ := strings.Cut(string(page), "```yaml\nstages:")
	stages, _, _ = strings.Cut(stages, "```")
	mustParse(t, base+"stages:"+stages)
}
