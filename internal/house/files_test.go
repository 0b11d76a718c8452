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

// writers are the functions of package os that create, change or rename a file.
var writers = []string{"WriteFile", "Create", "CreateTemp", "OpenFile", "Rename", "Truncate", "Link", "Symlink", "CopyFS"}

// byThemselves are the files outside of package durable that write to the disk, each with the
// reason why a crash there loses no data of a user.
var byThemselves = map[string]string{
	"internal/database/database.go":                   "creates SQLite's empty file; SQLite writes its contents",
	"internal/dataset/spool.go":                       "spools rows in a file without a name",
	"engine/cpu/internal/kernel/internal/gen/main.go": "writes source files",
	"internal/model/hub/cache.go":                     "links to files on the disk; the next start makes lost links again",
	"internal/model/hub/fetch.go":                     "flushes a download and compares its checksum before it gets its name",
	"internal/process/memory_linux.go":                "sets a property of the process",
	"monitor/jsonl.go":                                "appends lines for people, not state; a resumed run truncates half a line",
	"monitor/messages.go":                             "appends lines for people",
	"monitor/tensorboard.go":                          "appends records for people, which are not part of the state",
	"monitor/recordfile.go":                           "writes what metrics.jsonl has; what a kill leaves is written again",
	"internal/pipeline/taskset/juicerpass.go":         "writes input for a service and removes it afterwards",
	"internal/blobs/copy.go":                          "links whole files, whose digests their readers compare",
	"internal/pipeline/taskset/spool.go":              "spools rows and removes them afterwards",
	"weights/follower.go":                             "downloads weights; fetches them again unless they have the announced checksum",
	"internal/sandbox/files.go":                       "writes into a folder that is removed when the program ends",
	"internal/sandbox/root_linux.go":                  "writes into a root directory in memory",
	"internal/sandbox/cgroup_linux.go":                "sets properties of control groups",
	"workflow/bots.go":                                "appends a line for each group; an attempt after a kill appends it again",
	"internal/run/record/lines.go":                    "renames a log for people",
	"launcher/local.go":                               "writes into a folder that is removed when the program ends",
	"internal/cluster/cluster.go":                     "appends lines for people",
	"internal/run/replay.go":                          "copies into a folder that is removed when the program ends",
	"internal/run/record/recorder.go":                 "appends lines for people",
	"internal/cli/eval.go":                            "appends lines for people to a new file, which nothing reads",
	"internal/sweep/child.go":                         "appends lines; if that of success is lost, the run begins again and has nothing to do",
	"internal/serve/tinker/facts.go":                  "links files of a checkpoint into a directory that durable names whole",
	"internal/serve/studio/start.go":                  "appends lines for people",
	"internal/serve/finetune/run.go":                  "appends lines for people",
	"internal/cachedir/cachedir.go":                   "renames whole files of a cache, which are computed again without them",
	"internal/trace/lines.go":                         "appends frames for people, not state; readers leave out half a frame",
	"internal/trace/texts.go":                         "appends lines for people, not state; readers leave out half a line",
}

// Package durable writes files whole or not at all. A file that calls package os itself has a
// reason.
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
				t.Errorf("%s calls os.%s: write through package durable (Replace, WriteFile, WriteSecret, WriteDir, Log), or say in "+
					"this test why nothing is lost", name, strings.Join(calls, ", os."))
			}
			if len(calls) > 0 {
				delete(unseen, name)
			}
		}
	}
	for name := range unseen {
		t.Errorf("%s no longer writes files: drop its exception", name)
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
