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

// A step is on the disk when Write returns.
func TestStepsAreFlushed(t *testing.T) {
	const traced = "TRINITY_TEST_TRACED" // the archive, set in the process whose writes are traced
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
	// beside is how a small file beside the archive comes to be, whole or not at all.
	beside := func(name string) string {
		temporary := ".writing_" + name
		return strings.Join([]string{"durable.file.create " + name, "durable.file.write " + temporary, "durable.file.sync " + temporary, "durable.synced " + temporary,
			"durable.file.rename " + name, "durable.file.renamed " + name, "durable.synced ., "}, ", ")
	}
	lines := "archive.write of, archive.sync of, durable.synced of, " + beside("of.owner") + "written, "
	begun := beside("of.owner") + strings.Replace(beside("of"), "durable.file.write .writing_of, ", "", 1)
	for _, form := range []string{"of.jsonl", "of.jsonl.zst"} {
		path := filepath.Join(t.TempDir(), form)
		c := exec.Command(os.Args[0], "-test.run=^TestStepsAreFlushed$")
		c.Env = append(os.Environ(), traced+"="+path, failpoint.Variable+"=*=trace")
		var said bytes.Buffer
		c.Stderr = &said
		if err := c.Run(); err != nil {
			t.Fatal(errors.Join(err, errors.New(said.String())))
		}
		text := strings.NewReplacer("failpoint ", "", filepath.Dir(path)+"/", "", filepath.Dir(path), ".", form, "of", "\n", ", ").Replace(said.String())
		if want := begun + lines + lines; text != want {
			t.Errorf("%s: %s\nwant %s", form, text, want)
		}
	}
}
