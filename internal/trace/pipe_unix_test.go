//go:build unix

package trace

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// To open a pipe would wait for its writer.
func TestPipesAreNoAnswers(t *testing.T) {
	for _, name := range []string{"step-1.parquet", "answers.jsonl"} {
		path := filepath.Join(t.TempDir(), name)
		if err := syscall.Mkfifo(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadEvaluated(path); err == nil || !strings.Contains(err.Error(), path+": it is no regular file") {
			t.Error(err)
		}
	}
}
