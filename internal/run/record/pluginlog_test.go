package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// Texts of users do not write on the terminal that shows the log of failed rollouts. A stack keeps its lines.
func TestFailedRolloutsArePrintable(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "failed"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	(&explorerSide{log: &Log{failures: file}}).Warn(errors.New("agent: \x1b[2Jodd\r\u009b\ngoroutine 7:\n\tmain.go:\a3"))
	text, err := os.ReadFile(file.Name())
	_, said, _ := strings.Cut(string(text), " ")
	if want := "agent: \\x1b[2Jodd\\r\\u009b\ngoroutine 7:\n\tmain.go:\\a3\n"; err != nil || said != want {
		t.Errorf("%q, %v; want %q", said, err, want)
	}
}
