package config

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
)

// Tests describe keys by the comments of the source, so that one -update writes all golden files.
func init() { comments = sync.OnceValues(readComments) }

// The binary describes keys by the comments of the source.
func TestCommentsAreCurrent(t *testing.T) {
	want, err := readComments()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		text, err := json.MarshalIndent(want, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("comments.json", append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	var got map[string]string
	if err := json.Unmarshal(commentsJSON, &got); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Error("comments.json differs from the comments of the schema: run go test ./internal/config -update")
	}
}

// readComments reads the doc comments of the files with the schema.
func readComments() (map[string]string, error) {
	out := map[string]string{}
	files := []string{"config", "algorithm", "model", "tinker", "buffer", "explorer", "trainer", "synchronizer", "processor", "cod"}
	for _, name := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), name+".go", nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range tree.Decls {
			collectComments(d, out)
		}
	}
	return out, nil
}

func collectComments(d ast.Decl, out map[string]string) {
	types, ok := d.(*ast.GenDecl)
	if !ok || types.Tok != token.TYPE {
		return
	}
	for _, s := range types.Specs {
		spec := s.(*ast.TypeSpec)
		out[spec.Name.Name] = oneLine(types.Doc)
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range fields.Fields.List {
			for _, name := range f.Names {
				out[spec.Name.Name+"."+name.Name] = oneLine(f.Doc)
			}
		}
	}
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
