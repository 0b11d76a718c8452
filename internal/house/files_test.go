package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writers are what of package os makes, changes or renames a file.
var writers = []string{"WriteFile", "Create", "CreateTemp", "OpenFile", "Rename", "Truncate", "Link", "Symlink", "CopyFS"}

// byThemselves are the files outside of package durable that write to the disk, each with the reason why nothing of a user is lost when the machine goes down
// there.
var byThemselves = map[string]string{
	"internal/database/database.go":                   "makes SQLite's file, empty: what comes in is SQLite's",
	"dataset/spool.go":                                "rows on their way, in a file without a name",
	"engine/cpu/internal/kernel/internal/gen/main.go": "writes source files",
	"model/hub/cache.go":                              "links to what is on the disk: without them it is linked again",
	"model/hub/fetch.go":                              "flushed, and its sum compared, before it has its name",
	"monitor/jsonl.go":                                "appends lines for people, which are no part of the state; half a line is cut off when it goes on",
	"monitor/tensorboard.go":                          "appends records for people, which are no part of the state",
	"internal/pipeline/taskset/juicerpass.go":         "what a service reads, removed after that",
	"internal/pipeline/taskset/spool.go":              "rows on their way, removed after that",
	"weights/follower.go":                             "weights in transfer, which the follower checks and downloads again",
	"run/online.go":                                   "appends lines for people",
	"run/recorder.go":                                 "appends lines for people",
}

// Files are written by package durable, whole or not at all. What writes one by itself has a reason.
func TestFilesAreWrittenByDurable(t *testing.T) {
	unseen := maps.Clone(byThemselves)
	for pkg, files := range sources(t) {
		if pkg == "internal/durable" || isFree(pkg) {
			continue
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			name := pkg + "/" + filepath.Base(file)
			calls := writes(t, file)
			if _, ok := byThemselves[name]; len(calls) > 0 && !ok {
				t.Errorf("%s calls os.%s: write through package durable (Replace, WriteFile, WriteSecret, WriteDir, Log), or say in this test why nothing is lost", name, strings.Join(calls, ", os."))
			}
			if len(calls) > 0 {
				delete(unseen, name)
			}
		}
	}
	for name := range unseen {
		t.Errorf("%s writes no file by itself any more", name)
	}
}

// writes are the functions of package os by which a file writes files.
func writes(t *testing.T, file string) (calls []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(writers, s.Sel.Name) {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "os" {
			calls = append(calls, s.Sel.Name)
		}
		return true
	})
	return calls
}
