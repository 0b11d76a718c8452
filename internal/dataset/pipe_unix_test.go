//go:build unix

package dataset

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Opening a pipe would wait for a writer, and its rows could be read only once.
func TestPipeIsRefused(t *testing.T) {
	dir := write(t, map[string]string{"tasks/one/x": "", "card/rows.jsonl": "{}\n"})
	for _, path := range []string{"rows.jsonl", "rows.parquet", "tasks/one/instruction.md", "card/README.md"} {
		pipe := filepath.Join(dir, path)
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		o := Options{}
		if strings.HasPrefix(path, "tasks") {
			pipe, o.TaskDir = filepath.Join(dir, "tasks"), true
		}
		if path == "card/README.md" {
			pipe = filepath.Join(dir, "card")
		}
		d, err := Open(t.Context(), pipe, o)
		if err == nil {
			_, err = d.Row(0)
		}
		if err == nil || !strings.Contains(err.Error(), "is no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
