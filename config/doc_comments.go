package config

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"sync"
)

// schemaSource is the source of the schema. The comments in it are the descriptions of the keys, so
// that one text serves both.
//
//go:embed config.go algorithm.go model.go buffer.go explorer.go trainer.go synchronizer.go processor.go
var schemaSource embed.FS

// comments are the doc comments of the schema, by `Type` and `Type.Field`.
var comments = sync.OnceValues(func() (map[string]string, error) {
	out := map[string]string{}
	files, err := schemaSource.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		source, err := schemaSource.ReadFile(f.Name())
		if err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f.Name(), source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("config: reading the schema's comments: %w", err)
		}
		for _, d := range tree.Decls {
			collectComments(d, out)
		}
	}
	return out, nil
})

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

// description returns the doc tag of a key's field, else its comment, else the comment of the
// section's type without the type's name.
func (k Key) description(comments map[string]string) string {
	if doc := k.field.Tag.Get("doc"); doc != "" {
		return doc
	}
	if c := comments[k.owner.Name()+"."+k.field.Name]; c != "" {
		return c
	}
	below, _ := element(k.field.Type, "")
	if below == nil {
		return ""
	}
	c := strings.TrimPrefix(comments[below.Name()], below.Name()+" ")
	c = strings.TrimPrefix(c, "is ")
	if c == "" {
		return ""
	}
	return strings.ToUpper(c[:1]) + c[1:]
}
