package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
	inTitle = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Files of the repository to which documents link exist, and so do the headings.
func TestLinkedFilesExist(t *testing.T) {
	root, headings := repository(t), map[string][]string{}
	for _, path := range append(documents(t, root), filepath.Join(root, "AGENTS.md"), filepath.Join(root, "CHANGELOG.md"),
		filepath.Join(root, "examples/README.md")) {
		for _, m := range link.FindAllStringSubmatch(read(t, path), -1) {
			target, at, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := filepath.Join(filepath.Dir(path), target)
			if target == "" {
				file = path
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
				continue
			}
			if at != "" && headings[file] == nil {
				headings[file] = anchors(read(t, file))
			}
			if at != "" && !slices.Contains(headings[file], at) {
				t.Errorf("%s links to %s, which has no such heading", path, m[1])
			}
		}
	}
}

// anchors returns the names by which links find the headings of a page.
func anchors(page string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		title := inTitle.ReplaceAllString(m[1], "$1")
		names = append(names, strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(title), ""), " ", "-"))
	}
	return names
}

func TestAnchors(t *testing.T) {
	got := anchors("# `a_b`, [C](d.md) & e\n```sh\n# no\n```\n### A train step, made again\n")
	if want := []string{"a_b-c--e", "a-train-step-made-again"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
