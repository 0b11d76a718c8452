package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// $PAGER may have arguments, and less shows colours whatever $LESS says.
func TestPagerCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the pagers are shell scripts")
	}
	dir := t.TempDir()
	for _, name := range []string{"less", "other"} {
		script := "#!/bin/sh\necho \"$LESS:$*\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, c := range []struct{ pager, less, want string }{
		{"", "", "FRX:-R"}, {" ", "S", "S:-R"},
		{"less -S +G", "", "FRX:-R -S +G"}, {dir + "/less -S", "M", "M:-R -S"},
		{"other  -a b", "", "FRX:-a b"},
	} {
		t.Setenv("PAGER", c.pager)
		t.Setenv("LESS", c.less)
		if out, err := pagerCommand().Output(); err != nil || string(out) != c.want+"\n" {
			t.Errorf("PAGER=%q LESS=%q: %q, %v; want %q", c.pager, c.less, out, err, c.want)
		}
	}
}
