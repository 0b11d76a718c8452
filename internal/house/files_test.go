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
	"database/database.go":                   "makes SQLite's file, empty: what comes in is SQLite's",
	"database/watch.go":                      "an empty file, by which processes tell each other of a change",
	"dataset/keeper.go":                      "rows that are made again of the user's file where they are not whole; flushed before they have their name",
	"engine/cpu/kernel/internal/gen/main.go": "writes source files",
	"experience/archive/lines.go":            "appends lines, flushed with every step; what is half written is cut off when it goes on",
	"experience/archive/move.go":             "moves a whole archive, whose directory is flushed after that",
	"hub/cache.go":                           "links to what is on the disk: without them it is linked again",
	"hub/fetch.go":                           "flushed, and its sum compared, before it has its name",
	"hub/lock_unix.go":                       "an empty file, to lock",
	"monitor/jsonl.go":                       "appends lines for people, which are no part of the state; half a line is cut off when it goes on",
	"monitor/tensorboard.go":                 "appends records for people, which are no part of the state",
	"operator/scriptprocess_linux.go":        "tells the system which process is to end first",
	"pipeline/taskset/errand.go":             "what a service reads, removed after that",
	"pipeline/taskset/spool.go":              "rows on their way, removed after that",
	"remote/follow.go":                       "weights on their way: fetched again, unless they have the sum that was announced",
	"run/online.go":                          "appends lines for people",
	"run/recorder.go":                        "appends lines for people",
}

// Files are written by package durable, whole or not at all. What writes one by itself has a reason.
func TestFilesAreWrittenByDurable(t *testing.T) {
	unseen := maps.Clone(byThemselves)
	for pkg, files := range sources(t) {
		if pkg == "durable" || isFree(pkg) {
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
