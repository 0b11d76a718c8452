package doctest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/manual"
)

// ordered returns the pages of docs in the order of docs/README.md; the decisions follow their list.
func ordered(t *testing.T, root string) (all []manual.Page) {
	t.Helper()
	all = manual.Pages(read(t, filepath.Join(root, "docs/README.md")))
	decisions, err := filepath.Glob(filepath.Join(root, "docs/decisions/0*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range decisions {
		title, _, _ := strings.Cut(strings.TrimPrefix(read(t, file), "# "), "\n")
		all = append(all, manual.Page{List: "Decisions", Path: "decisions/" + filepath.Base(file), Title: title})
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// written compares a page with what it should be, or writes it with -update.
func written(t *testing.T, file, want string) {
	t.Helper()
	if old := read(t, file); old == want {
		return
	} else if line, _ := firstDifference(old, want); !*update {
		t.Errorf("%s:%d is not current: run go test ./internal/doctest -run Pages -update", file, line)
		return
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// docs/README.md lists every page of docs once, and no other.
func TestPagesAreListed(t *testing.T) {
	root := repository(t)
	seen := map[string]bool{"README.md": true}
	for _, p := range ordered(t, root) {
		if seen[p.Path] {
			t.Errorf("docs/README.md lists %s twice", p.Path)
		}
		seen[p.Path] = true
		if _, err := os.Stat(filepath.Join(root, "docs", p.Path)); err != nil {
			t.Errorf("docs/README.md lists %s, which is not there", p.Path)
		}
		if p.About == "" && p.List != "Decisions" {
			t.Errorf("docs/README.md does not say what %s is about", p.Path)
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "docs/*/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name, err := filepath.Rel(filepath.Join(root, "docs"), file)
		if err != nil {
			t.Fatal(err)
		}
		if name = filepath.ToSlash(name); !seen[name] {
			t.Errorf("docs/README.md does not list %s: add a line at its place, then go test ./internal/doctest -run Pages -update", name)
		}
	}
}

// The table of documents in README.md has the first five pages of each list.
func TestFirstPagesAreInREADME(t *testing.T) {
	const first = 5
	root := repository(t)
	_, table, found := strings.Cut(read(t, filepath.Join(root, "README.md")), "\n## Documents\n")
	if !found {
		t.Fatal("README.md has no section Documents")
	}
	count := map[string]int{}
	for _, p := range manual.Pages(read(t, filepath.Join(root, "docs/README.md"))) {
		count[p.List]++
		link := "](docs/" + strings.Replace(p.Path, "decisions/README.md", "decisions", 1) + ")"
		if has := strings.Contains(table, link); has != (count[p.List] <= first) {
			t.Errorf("docs/README.md has %s as number %d of %q: README.md has the first %d of each list, and no other",
				p.Path, count[p.List], p.List, first)
		}
	}
}

// Each page ends with links to the page before it and the next one, and docs/decisions/README.md lists the decisions.
func TestPagesLeadToTheNext(t *testing.T) {
	root := repository(t)
	all := ordered(t, root)
	for i, p := range all {
		file := filepath.Join(root, "docs", p.Path)
		text := read(t, file)
		if p.Path == "decisions/README.md" {
			head, _, _ := strings.Cut(text, "\n- [")
			text = head + "\n" + decisionList(all)
		}
		body, _, _ := strings.Cut(text, "\n"+manual.Mark)
		written(t, file, strings.TrimRight(body, "\n")+"\n\n"+manual.Mark+turns(all, i)+"\n")
	}
}

// decisionList returns the list of the decisions.
func decisionList(all []manual.Page) string {
	var b strings.Builder
	for _, p := range all {
		if p.List == "Decisions" {
			fmt.Fprintf(&b, "- [%s](%s)\n", p.Title, path.Base(p.Path))
		}
	}
	return b.String()
}

// turns returns the last line of page i.
func turns(all []manual.Page, i int) string {
	from := path.Dir(all[i].Path)
	link := func(p manual.Page) string {
		to, err := filepath.Rel(from, p.Path)
		if err != nil {
			to = "../" + p.Path
		}
		return fmt.Sprintf("[%s](%s)", p.Title, filepath.ToSlash(to))
	}
	var parts []string
	if i > 0 {
		parts = append(parts, "← "+link(all[i-1]))
	}
	parts = append(parts, link(manual.Page{Path: "README.md", Title: "all pages"}))
	if i+1 < len(all) {
		parts = append(parts, link(all[i+1])+" →")
	}
	return strings.Join(parts, " · ")
}

func TestTurns(t *testing.T) {
	all := []manual.Page{{Path: "guide/a.md", Title: "A"}, {Path: "guide/b.md", Title: "B"}, {Path: "operate/c.md", Title: "C"}}
	var got []string
	for i := range all {
		got = append(got, turns(all, i))
	}
	want := []string{
		"[all pages](../README.md) · [B](b.md) →",
		"← [A](a.md) · [all pages](../README.md) · [C](../operate/c.md) →",
		"← [B](../guide/b.md) · [all pages](../README.md)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
