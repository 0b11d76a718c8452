package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits of the house. A table below lists each type and struct beyond them with its present size,
// which may only shrink.
const (
	maxMethods = 40
	maxFields  = 25
	maxColumns = 140
)

// manyMethods lists the types that still have more methods than maxMethods.
var manyMethods = map[string]int{}

// manyFields lists the structs that still have more fields than maxFields. The schema in package
// config is free: its fields are the YAML's keys.
var manyFields = map[string]int{
	"engine/cpu/internal/kernel.kernels": 26,
	"model.Config":                       29,
}

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

func TestTypesHaveFewMethods(t *testing.T) {
	counts := map[string]int{}
	for pkg, files := range packages(t) {
		for _, file := range files {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
					counts[named(pkg)+"."+receiver(f)]++
				}
			}
		}
	}
	holdTo(t, counts, maxMethods, manyMethods, "methods")
}

func TestStructsHaveFewFields(t *testing.T) {
	counts := map[string]int{}
	for name, s := range structs(t) {
		if !strings.HasPrefix(name, "config.") {
			counts[name] = s.Fields.NumFields()
		}
	}
	holdTo(t, counts, maxFields, manyFields, "fields")
}

// holdTo compares counts with a limit, and the known exceptions with their present size.
func holdTo(t *testing.T, counts map[string]int, limit int, known map[string]int, what string) {
	t.Helper()
	for name, n := range counts {
		if most := max(limit, known[name]); n > most {
			t.Errorf("%s has %d %s, more than %d: split it into its parts", name, n, what, most)
		}
	}
	for name, n := range known {
		if counts[name] < n {
			t.Errorf("%s has %d %s now: lower its exception of %d, or drop it at %d", name, counts[name], what, n, limit)
		}
	}
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
		if strings.Contains("/"+pkg+"/", "/internal/") || files[0].Name.Name == "main" {
			continue
		}
		for _, file := range files {
			names = append(names, exported(pkg, file)...)
		}
	}
	slices.Sort(names)
	compareGolden(t, filepath.Join("testdata", "api.txt"), strings.Join(slices.Compact(names), "\n")+"\n")
}

func exported(pkg string, file *ast.File) (names []string) {
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

// testdata/wide.txt lists the folders that still have wider lines, with their number, which may
// only shrink.
func TestLinesAreNarrow(t *testing.T) {
	wide, where := map[string]int{}, map[string][]string{}
	for pkg, files := range sources(t) {
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if isGenerated(data) {
				continue
			}
			n := 0
			for line := range strings.Lines(string(data)) {
				if n++; utf8.RuneCountInString(strings.TrimRight(line, "\n")) > maxColumns {
					wide[pkg]++
					where[pkg] = append(where[pkg], fmt.Sprintf("%s:%d", filepath.Base(file), n))
				}
			}
		}
	}
	path := filepath.Join("testdata", "wide.txt")
	known, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(wide)) {
		most := 0
		for line := range strings.Lines(string(known)) {
			if rest, ok := strings.CutPrefix(line, pkg+" "); ok {
				fmt.Sscan(rest, &most)
			}
		}
		if wide[pkg] > most {
			t.Errorf("%s has %d lines wider than %d columns, at most %d are allowed: wrap %s",
				pkg, wide[pkg], maxColumns, most, strings.Join(where[pkg], ", "))
		}
		if left := min(wide[pkg], most); left > 0 {
			fmt.Fprintf(&table, "%s %d\n", pkg, left)
		}
	}
	if *update { // the numbers may only shrink
		compareGolden(t, path, table.String())
	}
}

func isGenerated(source []byte) bool {
	return bytes.HasPrefix(source, []byte("// Code generated ")) || bytes.Contains(source, []byte("\n// Code generated "))
}
