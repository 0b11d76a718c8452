// Program site makes a folder of static pages from docs. It has a module of its own, so that Trinity-Go does not depend on
// what it needs. The order of the pages is that of docs/README.md.
package main

import (
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"strings"
)

//go:embed page.html style.css site.js
var assets embed.FS

func main() {
	docs := flag.String("docs", "../../docs", "folder of the pages")
	out := flag.String("out", "../../dist/site", "folder to write; it is made anew")
	source := flag.String("source", "https://github.com/trinity-go/trinity/blob/main/", "where links to other files of the repository lead")
	flag.Parse()
	if err := run(*docs, *out, *source); err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprint(os.Stderr, "site: ", strings.TrimRight(line, "\n"), "\n")
		}
		os.Exit(1)
	}
}

func run(docs, out, source string) error {
	s := &site{docs: docs, source: source, byPath: map[string]*page{}, pictures: map[string]bool{}}
	if err := s.read(); err != nil {
		return err
	}
	s.link()
	if err := errors.Join(s.problems...); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return s.write(out)
}

// write writes the pages, their pictures, the style and the index of the search.
func (s *site) write(out string) error {
	layout, err := template.New("page.html").ParseFS(assets, "page.html")
	if err != nil {
		return err
	}
	var index []entry
	for i, p := range s.pages {
		body, err := s.render(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
		index = append(index, p.entries...)
		view := view{Title: p.title, Body: template.HTML(body), Up: strings.Repeat("../", strings.Count(p.path, "/"))}
		if i > 0 { // the first page is the list of all
			view.Before = &turn{s.pages[i-1].title, view.Up + s.pages[i-1].url()}
		}
		if i+1 < len(s.pages) {
			view.After = &turn{s.pages[i+1].title, view.Up + s.pages[i+1].url()}
		}
		for _, list := range s.lists {
			shown := menu{Title: list.title, Open: list.title == p.list}
			for _, item := range list.pages {
				shown.Items = append(shown.Items, entryOfMenu{turn{item.title, view.Up + item.url()}, item == p})
			}
			view.Menu = append(view.Menu, shown)
		}
		var text strings.Builder
		if err := layout.Execute(&text, view); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, filepath.FromSlash(p.url())), []byte(text.String())); err != nil {
			return err
		}
	}
	for name := range s.pictures {
		data, err := os.ReadFile(filepath.Join(s.docs, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, filepath.FromSlash(name)), data); err != nil {
			return err
		}
	}
	entries, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(out, "index.js"), append([]byte("const entries = "), entries...)); err != nil {
		return err
	}
	for _, name := range []string{"style.css", "site.js"} {
		data, err := assets.ReadFile(name)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, name), data); err != nil {
			return err
		}
	}
	fmt.Printf("%d pages and %d pictures in %s\n", len(s.pages), len(s.pictures), path.Clean(filepath.ToSlash(out)))
	return nil
}

func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// view is what page.html shows.
type view struct {
	Title         string
	Body          template.HTML
	Up            string // the way to the top of the site
	Before, After *turn
	Menu          []menu
}

type turn struct{ Title, URL string }

type menu struct {
	Title string
	Open  bool
	Items []entryOfMenu
}

type entryOfMenu struct {
	turn
	Here bool
}
