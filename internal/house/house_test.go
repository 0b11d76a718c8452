package house

import (
	"fmt"
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

// layers lists the packages from the bottom to the top. A package may import the layers below its
// own; within a layer only packages of one room may import one another, except in the ground
// layers. AGENTS.md has the same table: `go test ./internal/house -update` writes it there.
var layers = []struct {
	what     string
	packages []string
}{
	{"nouns, standard library only", []string{"."}},
	{"ground", []string{"engine", "registry", "algorithm/tape", "internal/serve/web", "internal/wire", "internal/wait",
		"internal/retry", "internal/process", "internal/bridge", "internal/quiet", "internal/failpoint",
		"internal/durable", "internal/cachedir", "internal/tags", "internal/safetext", "internal/database", "internal/rundir",
		"internal/experience", "internal/blobs", "internal/trace", "model", "internal/model",
		"operator/labelstudio", "operator/datajuicer", "engine/cpu/internal/kernel", "internal/sandbox", "python",
		"internal/machines", "examples", "docs", "internal/manual"}},
	{"", []string{"internal/config", "model/renderer"}},
	{"plug-ins, which never import one another", []string{"algorithm", "workflow", "environment", "reward", "operator", "selector",
		"buffer", "weights", "monitor", "engine/", "launcher"}},
	{"rows, groups of processes", []string{"internal/dataset", "internal/cluster"}},
	{"dialects, which the gateway speaks", []string{"internal/serve/openai"}},
	{"readers of what runs have written", []string{"internal/report", "internal/view"}},
	{"loops and servers, which do not know one another", []string{"internal/explorer", "internal/trainer",
		"internal/pipeline", "internal/serve",
		"internal/verify", "internal/sweep"}},
	{"both loops on simulated time", []string{"internal/simulation"}},
	{"wiring", []string{"internal/run"}},
	{"front end", []string{"internal/cli"}},
	{"blank imports of all plug-ins", []string{"standard"}},
	{"for binaries with plug-ins of their own", []string{"command"}},
	{"the binary", []string{"cmd"}},
}

// free packages are tests, the programs below examples, and benchmarks. They may import anything, and only
// tests may import them.
var free = []string{"trinitytest", "internal/house", "internal/doctest", "examples/", "bench"}

// layerOf returns the layer with the longest entry that is pkg or a folder above it, or -1 if there
// is none. An entry that ends with a slash is the packages below a folder.
func layerOf(pkg string) int {
	layer, longest := -1, ""
	for i, l := range layers {
		for _, name := range l.packages {
			below := name != "." && strings.HasPrefix(pkg, strings.TrimSuffix(name, "/")+"/")
			if (pkg == name || below) && len(name) >= len(longest) {
				layer, longest = i, name
			}
		}
	}
	return layer
}

// top returns the room of a package. Packages of one room may import one another; each folder of internal is
// a room, and each server in internal/serve.
func top(pkg string) string {
	depth := 1
	if strings.HasPrefix(pkg, "internal/") {
		depth = 2
	}
	if strings.HasPrefix(pkg, "internal/serve/") {
		depth = 3
	}
	parts := strings.Split(pkg, "/")
	return strings.Join(parts[:min(depth, len(parts))], "/")
}

func isFree(pkg string) bool {
	return slices.ContainsFunc(free, func(f string) bool { return pkg == f || strings.HasPrefix(pkg, strings.TrimSuffix(f, "/")+"/") })
}

// sources returns the repository's Go files by package path relative to the module.
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

func TestImportsFollowTheLayers(t *testing.T) {
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

// checkImport checks one import against the dependency rule.
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
		t.Errorf("%s imports %s, which is in the same layer", file, inside)
	}
}

func TestLayerTableInAGENTSIsCurrent(t *testing.T) {
	const path, begin, end = "../../AGENTS.md", "<!-- layers: written by internal/house -->\n", "<!-- end -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no %q … %q", path, begin, end)
	}
	var table strings.Builder
	table.WriteString("| layer | packages |\n|---|---|\n")
	for _, l := range layers {
		fmt.Fprintf(&table, "| %s | `%s` |\n", l.what, strings.Join(l.packages, "` `"))
	}
	fmt.Fprintf(&table, "| tests only | `%s` |\n", strings.Join(free, "` `"))
	compareGolden(t, path, before+begin+table.String()+end+after)
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

func TestFilesAreShort(t *testing.T) {
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

func TestPackagesHaveComments(t *testing.T) {
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

func TestNoPackageIsAJunkDrawer(t *testing.T) {
	for pkg := range sources(t) {
		switch name := pkg[strings.LastIndexByte(pkg, '/')+1:]; name {
		case "util", "utils", "common", "helpers", "misc":
			t.Errorf("package %s: name it after what it holds", pkg)
		}
	}
}

// A program below examples is one that somebody copies into a module of their own, where internal packages are out
// of reach.
func TestExamplesUseWhatIsPublic(t *testing.T) {
	for pkg, files := range sources(t) {
		for _, file := range files {
			if !strings.HasPrefix(pkg, "examples/") || strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, imported := range imports(t, file) {
				if strings.HasPrefix(imported, module+"/internal/") {
					t.Errorf("%s imports %s", file, imported)
				}
			}
		}
	}
}
