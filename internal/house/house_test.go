package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/trinity-go/trinity"

// layers from the bottom to the top: a package may import those below its own layer, and what `beside` allows within it.
var layers = [][]string{
	{"."},
	{"registry", "tape", "bearer", "await", "failpoint", "durable", "experience", "outage", "database", "tokenizer", "modelfile", "hub", "labelstudio", "datajuicer", "notify", "engine/cpu/kernel"},
	{"config", "renderer"},
	{"algorithm", "workflow", "reward", "operator", "selector", "dataset", "buffer", "synchronizer", "monitor", "engine"},
	{"explorer", "trainer", "pipeline", "verify", "annotate", "remote", "openai"},
	{"simulation"},
	{"run"},
	{"gateway", "studio", "internal/cli"},
	{"standard"},
	{"command"},
	{"cmd"},
}

// free packages are tests, examples and benchmarks: they may import anything, and only tests import them.
var free = []string{"trinitytest", "internal/house", "internal/doctest", "examples", "bench"}

func layerOf(pkg string) int {
	for i, names := range layers {
		for _, name := range names {
			if pkg == name || name != "." && strings.HasPrefix(pkg, name+"/") {
				if name == "engine" && strings.HasPrefix(pkg, "engine/cpu/kernel") {
					continue
				}
				return i
			}
		}
	}
	return -1
}

// top is the room of a package: packages of one room may import one another.
func top(pkg string) string {
	if strings.HasPrefix(pkg, "internal/") {
		return pkg
	}
	room, _, _ := strings.Cut(pkg, "/")
	return room
}

func isFree(pkg string) bool {
	return slices.ContainsFunc(free, func(f string) bool { return pkg == f || strings.HasPrefix(pkg, f+"/") })
}

// sources are the repository's Go files by package path relative to the module.
func sources(t *testing.T) map[string][]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]string{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			pkg, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			files[filepath.ToSlash(pkg)] = append(files[filepath.ToSlash(pkg)], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestImports(t *testing.T) {
	for pkg, files := range sources(t) {
		if isFree(pkg) {
			continue
		}
		if layerOf(pkg) < 0 {
			t.Errorf("package %s is in no layer: name it in the layer table", pkg)
			continue
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, imported := range imports(t, file) {
				checkImport(t, pkg, imported, file)
			}
		}
	}
}

// checkImport holds one import against the dependency rule.
func checkImport(t *testing.T, pkg, imported, file string) {
	inside, ok := strings.CutPrefix(imported, module)
	if !ok {
		if pkg == "." && strings.Contains(strings.Split(imported, "/")[0], ".") {
			t.Errorf("%s imports %s: the root package is standard library only", file, imported)
		}
		return
	}
	inside = strings.TrimPrefix(inside, "/")
	if inside == "" {
		inside = "."
	}
	from, to := layerOf(pkg), layerOf(inside)
	switch {
	case isFree(inside):
		t.Errorf("%s imports %s, which is for tests", file, inside)
	case to > from:
		t.Errorf("%s imports %s, which is above it", file, inside)
	case to == from && top(pkg) != top(inside) && from > 2:
		t.Errorf("%s imports %s, which stands beside it", file, inside)
	}
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func TestFileLengths(t *testing.T) {
	var lengths []int
	for _, files := range sources(t) {
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			n := strings.Count(string(data), "\n")
			if n > 700 {
				t.Errorf("%s has %d lines, more than 700", file, n)
			}
			if !strings.HasSuffix(file, "_test.go") {
				lengths = append(lengths, n)
			}
		}
	}
	slices.Sort(lengths)
	if median := lengths[len(lengths)/2]; median > 150 {
		t.Errorf("the median file has %d lines, more than 150", median)
	}
}

func TestPackageComments(t *testing.T) {
	for pkg, files := range sources(t) {
		documented := false
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			documented = documented || f.Doc != nil && !strings.HasSuffix(file, "_test.go")
		}
		if !documented {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

func TestNoJunkDrawers(t *testing.T) {
	for pkg := range sources(t) {
		switch name := pkg[strings.LastIndexByte(pkg, '/')+1:]; name {
		case "util", "utils", "common", "helpers", "misc":
			t.Errorf("package %s: name it after what it holds", pkg)
		}
	}
}
