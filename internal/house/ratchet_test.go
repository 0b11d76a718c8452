package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// What these tests count. A number that is not beyond its limit is left out.
const (
	maxMethods = 40  // of a type, with those of its wrappers and with the functions that take it
	maxFields  = 25  // of a struct
	maxImports = 20  // packages of this module that one package imports
	maxColumns = 140 // of a line
)

// testdata/numbers.txt has the numbers of the house. They may only go down: -update lowers those that have
// shrunk and drops those that are gone. Who needs a larger one, or another, writes it there and says
// why in a decision.
func TestNumbersOfTheHouseGoDown(t *testing.T) {
	path := filepath.Join("testdata", "numbers.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]int{}
	for line := range strings.Lines(string(text)) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if known[name], err = strconv.Atoi(number); err != nil {
			t.Fatalf("%s: %q does not begin with a number", path, line)
		}
	}
	now := numbers(t)
	var table strings.Builder
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if now[name] > known[name] {
			t.Errorf("%s: %d, at most %d are allowed", name, now[name], known[name])
		}
		if least := min(now[name], known[name]); least > 0 {
			fmt.Fprintf(&table, "%d %s\n", least, name)
		}
	}
	compareGolden(t, path, table.String())
}

// numbers counts what the house is made of.
func numbers(t *testing.T) map[string]int {
	all := map[string]int{}
	parsed := packages(t)
	rooms, literals := map[string]bool{}, map[string]int{}
	for pkg := range sources(t) {
		room, _, _ := strings.Cut(pkg, "/")
		rooms[room] = true
	}
	for pkg, files := range parsed {
		imported := map[string]bool{}
		for _, file := range files {
			all["names that other modules can use"] += len(exported(pkg, file))
			for _, i := range file.Imports {
				if strings.HasPrefix(i.Path.Value, `"`+module) {
					imported[i.Path.Value] = true
				}
			}
			for _, word := range written(file) {
				literals[word]++
			}
		}
		if pkg == "." {
			all["interfaces of the root"] = interfaces(files)
		}
		if len(imported) > maxImports && !slices.Contains(joiners, pkg) {
			all["packages that "+named(pkg)+" imports"] = len(imported)
		}
		for name, n := range methods(files) {
			if n > maxMethods {
				all["methods and functions of "+named(pkg)+"."+name] = n
			}
		}
		if n := wrappers(files); n > 0 {
			all["structs in "+named(pkg)+" that embed a pointer of the same package"] = n
		}
	}
	for name, s := range structs(t) {
		if n := s.Fields.NumFields(); n > maxFields && !strings.HasPrefix(name, "internal/config.") { // where fields are keys of the YAML
			all["fields of "+name] = n
		}
	}
	delete(rooms, ".")
	all["rooms"] = len(rooms)
	for word, n := range literals {
		if n > 1 {
			all["literals "+strconv.Quote(word)] = n
		}
	}
	countLines(t, all)
	all["test binaries that link SQLite"] = linking(t, "modernc.org/sqlite")
	return all
}

// joiners are packages whose work is to join the others.
var joiners = []string{"internal/cli", "standard", "cmd/trinity"}

// methods returns, for each type of a package, its methods, those of the structs that embed a pointer to it,
// those of the types that it embeds by value, and the functions that take one of these: all of them share
// its fields.
func methods(files []*ast.File) map[string]int {
	own, sharers, types := map[string]int{}, map[string][]string{}, map[string]bool{}
	for _, file := range files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					own[receiver(d)]++
					continue
				}
				takes := map[string]bool{}
				for _, p := range d.Type.Params.List {
					if name, ok := pointed(p.Type); ok {
						takes[name] = true
					}
				}
				for name := range takes {
					own[name]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if of, ok := spec.(*ast.TypeSpec); ok {
						types[of.Name.Name] = true
					}
				}
				for _, e := range embeddings(d) {
					if e.pointed {
						sharers[e.inner] = append(sharers[e.inner], e.outer)
					} else {
						sharers[e.outer] = append(sharers[e.outer], e.inner)
					}
				}
			}
		}
	}
	var of func(name string, seen map[string]bool) int
	of = func(name string, seen map[string]bool) int {
		if seen[name] {
			return 0
		}
		seen[name] = true
		n := own[name]
		for _, sharer := range sharers[name] {
			n += of(sharer, seen)
		}
		return n
	}
	all := map[string]int{}
	for name := range types { // not a type of the language that functions take
		all[name] = of(name, map[string]bool{})
	}
	return all
}

// pointed returns the name of the package's type that an expression points to.
func pointed(of ast.Expr) (string, bool) {
	star, ok := of.(*ast.StarExpr)
	if !ok {
		return "", false
	}
	name, ok := star.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	return name.Name, true
}

// embedding is a struct with a type of the same package that it embeds.
type embedding struct {
	outer, inner string
	pointed      bool
}

func embeddings(d *ast.GenDecl) (all []embedding) {
	for _, spec := range d.Specs {
		of, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		s, ok := of.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range s.Fields.List {
			if len(field.Names) > 0 {
				continue
			}
			if inner, ok := pointed(field.Type); ok {
				all = append(all, embedding{of.Name.Name, inner, true})
			} else if inner, ok := field.Type.(*ast.Ident); ok {
				all = append(all, embedding{of.Name.Name, inner.Name, false})
			}
		}
	}
	return all
}

func wrappers(files []*ast.File) (n int) {
	for _, file := range files {
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok {
				for _, e := range embeddings(d) {
					if e.pointed {
						n++
					}
				}
			}
		}
	}
	return n
}

func interfaces(files []*ast.File) (n int) {
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok {
				if _, ok := spec.Type.(*ast.InterfaceType); ok {
					n++
				}
			}
			return true
		})
	}
	return n
}

// once are names that one constant should hold: roles, and names of files in a run's directory.
var once = []string{"explorer", "trainer", "both", "monitor", "buffer", "metrics.jsonl", "global_step_", "stage_done.json", "state.json"}

// written returns the literals of a file that are among once, or the name of a metric.
func written(file *ast.File) (words []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		word, err := strconv.Unquote(literal.Value)
		if err != nil {
			return true
		}
		room, _, isPath := strings.Cut(word, "/")
		if slices.Contains(once, word) || isPath && slices.Contains([]string{"actor", "critic", "rollout", "sample", "time", "eval"}, room) {
			words = append(words, word)
		}
		return true
	})
	return words
}

// countLines counts the product's lines by room, in hundreds, and the lines that are too wide by folder.
func countLines(t *testing.T, all map[string]int) {
	t.Helper()
	lines := map[string]int{}
	count := func(folder, file string) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if isGenerated(data) {
			return
		}
		if !isFree(folder) && !strings.HasSuffix(file, "_test.go") {
			lines[named(top(folder))] += strings.Count(string(data), "\n")
		}
		for line := range strings.Lines(string(data)) {
			if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > maxColumns {
				all["lines wider than 140 columns in "+named(folder)]++
			}
		}
	}
	for folder, files := range sources(t) {
		for _, file := range files {
			count(folder, file)
		}
	}
	const studio = "internal/serve/studio/page"
	pages, err := fs.Glob(os.DirFS("../../"+studio), "*.js")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%s has %d scripts: %v", studio, len(pages), err)
	}
	for _, name := range pages {
		count(studio, filepath.Join("../..", studio, name))
	}
	for room, n := range lines {
		all["hundreds of lines in "+room] = (n + 99) / 100
	}
}

// linking returns the number of packages whose tests link a package of another module.
func linking(t *testing.T, other string) (n int) {
	t.Helper()
	product, tests := map[string][]string{}, map[string][]string{}
	for pkg, files := range sources(t) {
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				tests[pkg] = append(tests[pkg], imports(t, file)...)
			} else {
				product[pkg] = append(product[pkg], imports(t, file)...)
			}
		}
	}
	for pkg, imported := range tests {
		if reaches(product, append(imported, product[pkg]...), other, map[string]bool{}) {
			n++
		}
	}
	return n
}

// reaches reports whether imports lead to a package of another module.
func reaches(product map[string][]string, imported []string, other string, seen map[string]bool) bool {
	for _, path := range imported {
		if path == other {
			return true
		}
		inside, ours := strings.CutPrefix(path, module)
		if inside = strings.TrimPrefix(inside, "/"); inside == "" {
			inside = "."
		}
		if !ours || seen[inside] {
			continue
		}
		if seen[inside] = true; reaches(product, product[inside], other, seen) {
			return true
		}
	}
	return false
}
