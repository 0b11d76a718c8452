package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// site is all pages of docs in their order.
type site struct {
	docs, source string
	pages        []*page
	lists        []list
	byPath       map[string]*page
	pictures     map[string]bool // by their path from docs on
	problems     []error
}

type list struct {
	title string
	pages []*page
}

type page struct {
	path, title, list string // list is the title of its list
	source            []byte
	root              ast.Node
	headings          []string // their names in links
	entries           []entry
}

// entry is a section of a page in the index of the search.
type entry struct {
	Page    string `json:"p"`
	Heading string `json:"h"`
	URL     string `json:"u"`
	Text    string `json:"t"`
}

// url returns the file of a page: README.md is the index of its folder.
func (p *page) url() string {
	dir, name := path.Split(p.path)
	if name == "README.md" {
		return dir + "index.html"
	}
	return strings.TrimSuffix(p.path, ".md") + ".html"
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// read reads docs/README.md and the pages that its lists and the list of decisions name.
func (s *site) read() error {
	if err := s.add("README.md", "Documents", ""); err != nil {
		return err
	}
	s.lists = nil // the first page is above all lists
	for _, of := range []string{"README.md", "decisions/README.md"} {
		list := ""
		from := s.byPath[of]
		if from == nil {
			return fmt.Errorf("docs/README.md does not list %s", of)
		}
		if of != "README.md" {
			list = from.title
		}
		for n := from.root.FirstChild(); n != nil; n = n.NextSibling() {
			if h, ok := n.(*ast.Heading); ok && h.Level == 2 {
				list = plain(h, from.source)
			}
			if _, ok := n.(*ast.List); !ok {
				continue
			}
			for item := n.FirstChild(); item != nil; item = item.NextSibling() {
				link, ok := item.FirstChild().FirstChild().(*ast.Link)
				if !ok {
					return fmt.Errorf("an item of %s does not begin with a link", of)
				}
				if err := s.add(path.Join(path.Dir(of), string(link.Destination)), plain(link, from.source), list); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// mark begins the last lines of a page, which link the pages before and after it. The layout has them too.
var mark = regexp.MustCompile(`(?s)\n<!-- pages: .*`)

// add reads a page, which its list calls by a title.
func (s *site) add(name, title, in string) error {
	source, err := os.ReadFile(filepath.Join(s.docs, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	p := &page{path: name, title: title, list: in, source: mark.ReplaceAll(bytes.ReplaceAll(source, []byte("\r\n"), []byte("\n")), []byte("\n"))}
	context := parser.NewContext(parser.WithIDs(&anchors{seen: map[string]int{}}))
	p.root = markdown.Parser().Parse(text.NewReader(p.source), parser.WithContext(context))
	p.sections()
	s.pages, s.byPath[name] = append(s.pages, p), p
	if len(s.lists) == 0 || s.lists[len(s.lists)-1].title != in {
		s.lists = append(s.lists, list{title: in})
	}
	last := &s.lists[len(s.lists)-1]
	last.pages = append(last.pages, p)
	return nil
}

// anchors names headings as GitHub does.
type anchors struct{ seen map[string]int }

var (
	linked       = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchors = regexp.MustCompile(`[^\pL\pN_ -]`)
)

func (a *anchors) Generate(title []byte, _ ast.NodeKind) []byte {
	name := linked.ReplaceAllString(strings.ToLower(strings.TrimSpace(string(title))), "$1")
	name = strings.ReplaceAll(notInAnchors.ReplaceAllString(name, ""), " ", "-")
	a.seen[name]++
	if n := a.seen[name]; n > 1 {
		name = fmt.Sprintf("%s-%d", name, n-1)
	}
	return []byte(name)
}

func (a *anchors) Put([]byte) {}

// sections finds the title, the names of the headings, and the text of each section.
func (p *page) sections() {
	url := p.url()
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			if len(p.entries) > 0 {
				last := &p.entries[len(p.entries)-1]
				last.Text = strings.TrimSpace(last.Text + " " + plain(n, p.source))
			}
			continue
		}
		name := ""
		if id, ok := h.AttributeString("id"); ok {
			name = string(id.([]byte))
		}
		p.headings = append(p.headings, name)
		e := entry{Page: p.title, Heading: plain(h, p.source), URL: url + "#" + name}
		if len(p.entries) == 0 {
			e = entry{Page: p.title, URL: url}
		}
		p.entries = append(p.entries, e)
	}
}

// plain returns the text of a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// link turns links between files into links between pages, and notes the pictures and what is not there.
func (s *site) link() {
	for _, p := range s.pages {
		_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if !entering {
				return ast.WalkContinue, nil
			}
			switch n := n.(type) {
			case *ast.Link:
				n.Destination = []byte(s.target(p, string(n.Destination), false))
			case *ast.Image:
				n.Destination = []byte(s.target(p, string(n.Destination), true))
			}
			return ast.WalkContinue, nil
		})
	}
}

// target returns where a link of a page leads in the site.
func (s *site) target(p *page, to string, isPicture bool) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return to
	}
	file, heading, hasHeading := strings.Cut(to, "#")
	name := p.path
	if file != "" {
		name = path.Join(path.Dir(p.path), file)
	}
	of := s.byPath[name]
	if of == nil {
		of = s.byPath[path.Join(name, "README.md")]
	}
	up := strings.Repeat("../", strings.Count(p.path, "/"))
	switch _, err := os.Stat(filepath.Join(s.docs, filepath.FromSlash(name))); {
	case of != nil && hasHeading && !slices.Contains(of.headings, heading):
		s.problems = append(s.problems, fmt.Errorf("docs/%s links to %s, which has no such heading", p.path, to))
	case of != nil && hasHeading && of == p:
		return "#" + heading
	case of != nil && hasHeading:
		return up + of.url() + "#" + heading
	case of != nil:
		return up + of.url()
	case err != nil:
		s.problems = append(s.problems, fmt.Errorf("docs/%s links to %s, which is not there", p.path, to))
	case isPicture:
		s.pictures[name] = true
	case strings.HasPrefix(name, "../"):
		return s.source + strings.TrimPrefix(name, "../")
	default:
		return s.source + "docs/" + name
	}
	return to
}

var tables = strings.NewReplacer("<table>", `<div class="table" tabindex="0"><table>`, "</table>", "</table></div>",
	"<pre>", `<pre tabindex="0">`, "<!-- raw HTML omitted -->", "")

// render returns the HTML of a page, whose wide tables and code scroll by themselves.
func (s *site) render(p *page) (string, error) {
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, p.source, p.root); err != nil {
		return "", err
	}
	return tables.Replace(b.String()), nil
}
