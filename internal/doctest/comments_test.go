package doctest

import (
	"bytes"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unlike begins the part of a comment that explains a departure from Trinity-RFT.
const unlike = "Unlike Trinity-RFT:"

// sources holds the comments from which the test writes the page of algorithms.
type sources struct {
	comments   map[string]string // doc comments by "package.Name"
	departures int               // number of departures from Trinity-RFT in all sources
}

// readSources reads the packages of algorithm, and files that depart from Trinity-RFT.
func readSources(t *testing.T, root string) sources {
	t.Helper()
	s := sources{comments: map[string]string{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		if !strings.HasPrefix(dir+"/", "algorithm/") && !bytes.Contains(text, []byte(unlike)) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		s.departures += bytes.Count(text, []byte(unlike))
		addComments(s.comments, dir, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// addComments adds the comments of a file.
func addComments(to map[string]string, dir string, file *ast.File) {
	add := func(name string, docs ...*ast.CommentGroup) {
		for _, d := range docs {
			if text := d.Text(); text != "" {
				to[dir+"."+name] = text
				return
			}
		}
	}
	add("", file.Doc)
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			add(receiver(d)+d.Name.Name, d.Doc)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name.Name, s.Doc, d.Doc)
				case *ast.ValueSpec:
					add(s.Names[0].Name, s.Doc, d.Doc)
					nameByValue(to, dir+".", s)
				}
			}
		}
	}
}

// nameByValue replaces a constant's name in its comment by its value, which the YAML uses.
func nameByValue(comments map[string]string, prefix string, s *ast.ValueSpec) {
	name := s.Names[0].Name
	if text, ok := comments[prefix+name]; ok && len(s.Values) > 0 {
		if value, ok := s.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
			comments[prefix+name] = strings.Replace(text, name, "`"+strings.Trim(value.Value, `"`)+"`", 1)
		}
	}
}

// receiver returns "Type." for a method of Type, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// departures returns the parts of a comment that explain a departure from Trinity-RFT, each up to
// the end of its paragraph.
func departures(text string) []string {
	var out []string
	for _, paragraph := range strings.Split(text, "\n\n") {
		parts := strings.Split(strings.Join(strings.Fields(paragraph), " "), unlike)
		out = append(out, parts[1:]...)
	}
	return out
}

// markdown converts a doc comment to Markdown. A paragraph becomes a line, and indented text, such
// as a formula, a block.
func markdown(text string) string {
	links := comment.Parser{
		LookupPackage: func(name string) (string, bool) { return name, linked.MatchString(name) },
		LookupSym:     func(_, name string) bool { return linked.MatchString(name) },
	}
	printer := comment.Printer{DocLinkURL: func(*comment.DocLink) string { return "" }, TextWidth: -1}
	var b strings.Builder
	for _, block := range links.Parse(text).Content {
		if code, ok := block.(*comment.Code); ok {
			b.WriteString("```text\n" + strings.TrimRight(code.Text, "\n") + "\n```\n\n")
			continue
		}
		b.WriteString(unescape.Replace(string(printer.Markdown(&comment.Doc{Content: []comment.Block{block}}))) + "\n")
	}
	return b.String()
}

// linked matches links in comments; [T] is a shape.
var linked = regexp.MustCompile(`^\w\w+$`)

// unescape removes escapes that names and shapes do not need.
var unescape = strings.NewReplacer(`\_`, `_`, `\[`, `[`, "\\`", "`")
