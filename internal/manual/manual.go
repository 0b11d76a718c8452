// Package manual reads the pages of docs and prints them in a terminal.
package manual

import (
	"regexp"
	"strings"
)

// Page is a page of docs, as docs/README.md lists it.
type Page struct {
	List  string // the heading above it
	Path  string // from docs on
	Title string
	About string // what follows the title
}

// Topic returns the name of the page for trinity help, such as guide/studio.
func (p Page) Topic() string { return strings.TrimSuffix(p.Path, ".md") }

// Mark begins the last lines of a page: links to the page before it and to the next one.
const Mark = "<!-- pages: written by go test ./internal/doctest -update -->\n"

var entry = regexp.MustCompile(`^- \[(.+?)\]\((.+?\.md)\)(?:: (.*))?$`)

// Pages returns the pages that the text of docs/README.md lists, in its order.
func Pages(list string) (all []Page) {
	heading := ""
	for line := range strings.Lines(list) {
		line = strings.TrimRight(line, "\r\n")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			heading = title
		}
		if m := entry.FindStringSubmatch(line); m != nil {
			all = append(all, Page{heading, m[2], m[1], m[3]})
		}
	}
	return all
}
