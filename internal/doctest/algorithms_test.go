package doctest

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/manual"
)

var update = flag.Bool("update", false, "write docs/reference/algorithms.md and the last lines of all pages")

// The test writes docs/reference/algorithms.md from the registered plug-ins and the comments of
// their types.
func TestAlgorithmsInDocsAreCurrent(t *testing.T) {
	const (
		path = "../../docs/reference/algorithms.md"
		mark = "<!-- written by go test ./internal/doctest -update -->\n"
	)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, body, ok := strings.Cut(string(old), mark)
	if !ok {
		t.Fatalf("%s has no line %s", path, mark)
	}
	p := &page{t: t, sources: readSources(t, repository(t))}
	p.types()
	for _, s := range sections {
		p.section(s)
	}
	p.differences()
	_, end, _ := strings.Cut(body, "\n"+manual.Mark)
	want := head + mark + strings.TrimRight(p.String(), "\n") + "\n\n" + manual.Mark + end
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if line, same := firstDifference(string(old), want); !same {
		t.Errorf("%s:%d differs from the comments: run go test ./internal/doctest -update", path, line)
	}
}

// firstDifference returns the number of the first line in which two texts differ.
func firstDifference(a, b string) (int, bool) {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i + 1, false
		}
	}
	return min(len(x), len(y)) + 1, len(x) == len(y)
}

// The comment of a plug-in's type says what it computes, and each argument has a description.
func TestEveryPlugInIsDocumented(t *testing.T) {
	comments := readSources(t, repository(t)).comments
	for _, s := range sections {
		if s.catalog == nil {
			continue
		}
		for _, name := range s.catalog.Names() {
			info, err := s.catalog.Explain(name)
			if err != nil {
				t.Fatal(err)
			}
			if comments[typeKey(s.catalog.Default(name))] == "" {
				t.Errorf("%s %s: its type has no comment", info.Kind, name)
			}
			for _, f := range info.Fields {
				if f.Doc == "" {
					t.Errorf("%s %s: argument %s has no doc", info.Kind, name, f.Key)
				}
			}
		}
	}
}
