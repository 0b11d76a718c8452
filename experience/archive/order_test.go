package archive

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/failpoint"
)

const traced = "TRINITY_TEST_TRACED" // the archive, set in the process whose writes are traced

// trace has a test write to the archive in a process of its own, and says what was written and flushed in which order; the archive is called of.
func trace(t *testing.T, path string) string {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), traced+"="+path, failpoint.Variable+"=*=trace")
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Run(); err != nil {
		t.Fatal(errors.Join(err, errors.New(said.String())))
	}
	return strings.NewReplacer("failpoint ", "", filepath.Dir(path)+"/", "", filepath.Dir(path), ".", filepath.Base(path), "of", "\n", ", ").Replace(said.String())
}

// besideOf is how a small file beside the archive, or the empty one, comes to be, whole or not at all.
func besideOf(name string) string {
	temporary := ".writing_" + name
	return strings.Join([]string{"durable.file.create " + name, "durable.file.write " + temporary, "durable.file.sync " + temporary, "durable.synced " + temporary,
		"durable.file.rename " + name, "durable.file.renamed " + name, "durable.synced ., "}, ", ")
}

// A step is on the disk when Write returns.
func TestStepsAreFlushed(t *testing.T) {
	if path := os.Getenv(traced); path != "" {
		w := New(path, Run{})
		for step := range int64(2) {
			if err := w.Write(t.Context(), step+1, ofStep(step+1, 2)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(os.Stderr, "written")
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	lines := "archive.write of, archive.sync of, durable.synced of, " + besideOf("of.owner") + "written, "
	begun := besideOf("of.owner") + strings.Replace(besideOf("of"), "durable.file.write .writing_of, ", "", 1)
	for _, form := range []string{"of.jsonl", "of.jsonl.zst"} {
		if got, want := trace(t, filepath.Join(t.TempDir(), form)), begun+lines+lines; got != want {
			t.Errorf("%s: %s\nwant %s", form, got, want)
		}
	}
}

// What gives way to a step that leaves nothing is off the disk too.
func TestWhatGivesWayIsFlushed(t *testing.T) {
	if path := os.Getenv(traced); path != "" {
		w := New(path, Run{})
		if err := errors.Join(w.Write(t.Context(), 2, nil), w.Close()); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, form := range []string{".jsonl", ".jsonl.gz", ".parquet"} {
		for first, flushed := range map[int64]string{1: "of", 2: "."} { // with nothing before step 2, all is moved aside
			path := filepath.Join(t.TempDir(), "copy"+form)
			(&teller{Run: Run{}}).writes(t, path, 1, first, first+1)
			if got, want := trace(t, path), besideOf("of.owner")+"durable.synced "+flushed+", "; !strings.HasPrefix(got, want) {
				t.Errorf("%s, from step %d: %s\nwant %s", form, first, got, want)
			}
		}
	}
}

// An archive has its new name on the disk before the record beside the old one is removed.
func TestAMoveIsFlushed(t *testing.T) {
	if path := os.Getenv(traced); path != "" {
		w := New(path, Run{Name: "another", Say: func(string) {}})
		if err := errors.Join(w.Claim(), w.Write(t.Context(), 1, ofStep(1, 1)), w.Close()); err != nil {
			t.Fatal(err)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "copy.jsonl")
	write(t, path, ofStep(1, 1))
	if got, want := trace(t, path), besideOf("of.1.owner")+"durable.synced ., "+besideOf("of.owner"); !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}
