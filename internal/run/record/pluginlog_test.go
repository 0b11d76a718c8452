package record

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A log of plug-ins keeps the newest lines, those of an earlier process among them.
func TestTheLogOfPluginsIsBounded(t *testing.T) {
	dir := t.TempDir()
	for process := range 2 {
		l, err := openBoundedLog(dir, "plugins.log", 20)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if _, err := fmt.Fprintf(l, "line %d%d\n", process, i); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"plugins.log": "line 11\nline 12\n", "plugins.log.1": "line 02\nline 10\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}
