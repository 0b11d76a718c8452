package durable

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/failpoint"
)

const tracedDir = "TRINITY_TEST_TRACED_DIR" // set in the process whose writes are traced

// traced lists the writes and the order in which they must reach the disk: content before its name,
// and a name before the acknowledgement.
var traced = []struct {
	name  string
	write func(dir string) error
	want  string
}{
	{"a file", func(dir string) error { return WriteFile(filepath.Join(dir, "f"), []byte("x")) },
		"file.create f, file.write .writing_f, file.sync .writing_f, synced .writing_f, file.rename f, file.renamed f, synced ."},
	{"a directory", writeTracedDir,
		"dir.create .writing_d, dir.sync .writing_d, synced .writing_d, synced .writing_d/a, synced .writing_d/b, synced .writing_d/b/c, dir.rename d, dir.renamed d, synced ."},
	{"a directory in the place of one", writeTracedDir,
		"dir.create .writing_d, dir.sync .writing_d, synced .writing_d, synced .writing_d/a, synced .writing_d/b, synced .writing_d/b/c, dir.replace .replaced_d, dir.rename d, dir.renamed d, synced ."},
	{"directories", func(dir string) error { return MkdirAll(filepath.Join(dir, "p", "q"), 0o755) }, "synced ., synced p"},
	{"directories that are there", func(dir string) error { return MkdirAll(filepath.Join(dir, "p", "q"), 0o755) }, ""},
	{"a log, with a segment a record", func(dir string) error {
		l, err := OpenLog(filepath.Join(dir, "l"))
		if err != nil {
			return err
		}
		_, first := l.Append([]byte("x"))
		_, second := l.Append([]byte("y"))
		return errors.Join(first, second, l.Close())
	}, "synced ., log.create l/0, synced l/.writing_0, log.begin l/0, synced l, " +
		"log.frame l/0, log.record l/0, log.sync l/0, synced l/0, log.appended l/0, " +
		"log.roll , log.create l/1, synced l/.writing_1, log.begin l/1, synced l, log.frame l/1, log.record l/1, log.sync l/1, synced l/1, log.appended l/1"},
	{"a log that is gone on with", func(dir string) error {
		l, err := OpenLog(filepath.Join(dir, "l"))
		if err != nil {
			return err
		}
		return l.Close()
	}, "synced l/1"},
}

func writeTracedDir(dir string) error {
	return WriteDir(filepath.Join(dir, "d"), func(temp string) error {
		return errors.Join(os.WriteFile(filepath.Join(temp, "a"), nil, 0o644), os.Mkdir(filepath.Join(temp, "b"), 0o755),
			os.WriteFile(filepath.Join(temp, "b", "c"), nil, 0o644))
	})
}

func writeTraced(dir string) error {
	for _, c := range traced {
		fmt.Fprintln(os.Stderr, c.name)
		if err := c.write(dir); err != nil {
			return err
		}
	}
	return nil
}

// Everything that must be flushed is flushed, in the right order.
func TestOrderOnTheDisk(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no way to flush a directory's entries")
	}
	dir := t.TempDir()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), tracedDir+"="+dir, failpoint.Variable+"=*=trace; durable.log.roll=force")
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	got := map[string][]string{}
	short := strings.NewReplacer("failpoint durable.", "", dir+"/", "", dir, ".", segmentSuffix, "", strings.Repeat("0", 19), "")
	var name string
	for line := range strings.Lines(said.String()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "failpoint ") {
			name = line
			continue
		}
		got[name] = append(got[name], short.Replace(line))
	}
	for _, c := range traced {
		if text := strings.Join(got[c.name], ", "); text != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, text, c.want)
		}
	}
}
