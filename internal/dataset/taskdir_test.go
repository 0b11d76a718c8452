package dataset

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestTaskDir(t *testing.T) {
	dir := write(t, map[string]string{
		"b/instruction.md": "Sort it.\n", "a/instruction.md": "Add 1.", "a/task.toml": "[agent]\ntimeout = 5\n", "a/tests/test.sh": "true",
		"README.md": "x", ".git/config": "x",
	})
	d, err := Open(t.Context(), dir+"/", Options{TaskDir: true, Split: "train"})
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"name": "a", "path": filepath.Join(dir, "a"), "instruction": "Add 1.", "task_toml": "[agent]\ntimeout = 5\n"},
		{"name": "b", "path": filepath.Join(dir, "b"), "instruction": "Sort it.\n"},
	}
	if got := all(t, d); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if d.Where(1) != filepath.Join(dir, "b") {
		t.Error(d.Where(1))
	}
}

func TestTaskDirErrors(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":    {map[string]string{"README.md": "x"}, "no folder in it has instruction.md"},
		"without": {map[string]string{"a/instruction.md": "x", "b/task.toml": "x"}, "every folder is a task"},
	} {
		if _, err := Open(t.Context(), write(t, c.files), Options{TaskDir: true}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	file := filepath.Join(write(t, map[string]string{"f": ""}), "f")
	if _, err := Open(t.Context(), file, Options{TaskDir: true}); err == nil {
		t.Error("a file was taken for a directory of tasks")
	}
}
