package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packages parses the product's packages: no tests, and nothing that only tests import.
func packages(t *testing.T) map[string][]*ast.File {
	t.Helper()
	parsed := map[string][]*ast.File{}
	for pkg, files := range sources(t) {
		if isFree(pkg) {
			continue
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			parsed[pkg] = append(parsed[pkg], f)
		}
	}
	return parsed
}

// receiver returns the name of the type that f is a method of, or "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	name, _ := of.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

func TestStructsHoldNoContext(t *testing.T) {
	for name, s := range structs(t) {
		for _, field := range s.Fields.List {
			if selector, ok := field.Type.(*ast.SelectorExpr); ok && selector.Sel.Name == "Context" {
				t.Errorf("%s has a context: pass it to the method that needs it", name)
			}
		}
	}
}

// named returns the name of a package in these tests: the root is trinity.
func named(pkg string) string {
	if pkg == "." {
		return "trinity"
	}
	return pkg
}

// structs returns the struct types of the product as package.Name.
func structs(t *testing.T) map[string]*ast.StructType {
	t.Helper()
	found := map[string]*ast.StructType{}
	for pkg, files := range packages(t) {
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					if s, ok := spec.Type.(*ast.StructType); ok {
						found[named(pkg)+"."+spec.Name.Name] = s
					}
				}
				return true
			})
		}
	}
	return found
}

// testdata/api.txt lists the names that other modules can use, so that a change of them is visible.
func TestExportedNamesAreRecorded(t *testing.T) {
	var names []string
	for pkg, files := range packages(t) {
		for _, file := range files {
			names = append(names, exported(pkg, file)...)
		}
	}
	slices.Sort(names)
	compareGolden(t, filepath.Join("testdata", "api.txt"), strings.Join(slices.Compact(names), "\n")+"\n")
}

// exported returns the names of a file that other modules can use.
func exported(pkg string, file *ast.File) (names []string) {
	if strings.Contains("/"+pkg+"/", "/internal/") || file.Name.Name == "main" {
		return nil
	}
	add := func(name string) { names = append(names, named(pkg)+"."+name) }
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			of := receiver(d)
			switch {
			case !d.Name.IsExported() || of != "" && !ast.IsExported(of):
			case of != "":
				add(of + "." + d.Name.Name)
			default:
				add(d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						add(s.Name.Name)
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if name.IsExported() {
							add(name.Name)
						}
					}
				}
			}
		}
	}
	return names
}

func isGenerated(source []byte) bool {
	return bytes.HasPrefix(source, []byte("// Code generated ")) || bytes.Contains(source, []byte("\n// Code generated "))
}
