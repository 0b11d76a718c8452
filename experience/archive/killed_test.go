package archive

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/failpoint"
)

// A run that goes on, is killed between any two writes, and goes on again, has in its archive what it would have without the kill: nothing of steps that were
// undone, and all others. What was moved aside is whole.
func TestKilledBetweenAnyTwoWrites(t *testing.T) {
	const life = "TRINITY_TEST_LIFE" // the archive, set in the process that is killed
	goOn := func(path string) error {
		w := New(path, newTeller("one").Run)
		return errors.Join(w.Write(t.Context(), 3, nil), w.Write(t.Context(), 4, ofStep(4, 1)), w.Write(t.Context(), 5, ofStep(5, 1)), w.Close())
	}
	if path := os.Getenv(life); path != "" {
		if err := goOn(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("it starts some two hundred processes")
	}
	for _, c := range []struct {
		name, form string
		before     func(path string) error
		want       map[string]string // what is where, by what is behind the archive's name
	}{
		{"thrown back", ".jsonl", nil, map[string]string{"": "1.0 2.0 4.0 5.0"}},
		{"thrown back", ".parquet", nil, map[string]string{"": "1.0 2.0 4.0 5.0"}},
		{"moved back", ".jsonl.gz", func(path string) error {
			newTeller("two").writes(t, path, 2, 1, 2)
			return nil
		}, map[string]string{"": "1.0 2.0 4.0 5.0", ".2": "1.0 1.1 2.0 2.1"}},
		{"damaged", ".jsonl.gz", func(path string) error {
			data, err := os.ReadFile(path)
			if err == nil {
				data[len(gz.prefix)+8]++ // the length of step 1
				err = os.WriteFile(path, data, 0o644)
			}
			return err
		}, map[string]string{"": "4.0 5.0", ".1": "1.0 2.0 3.0 4.0"}},
	} {
		t.Run(c.name+c.form, func(t *testing.T) {
			t.Parallel()
			for hit, ended := 1, false; !ended; hit++ {
				path := filepath.Join(t.TempDir(), "copy"+c.form)
				newTeller("one").writes(t, path, 1, 1, 2, 3, 4)
				if c.before != nil {
					if err := c.before(path); err != nil {
						t.Fatal(err)
					}
				}
				process := exec.Command(os.Args[0], "-test.run=^TestKilledBetweenAnyTwoWrites$")
				process.Env = append(os.Environ(), life+"="+path, fmt.Sprintf("%s=*=kill@%d", failpoint.Variable, hit))
				said, err := process.CombinedOutput()
				if ended = err == nil; !ended && strings.Contains(string(said), "FAIL") {
					t.Fatalf("%s", said)
				}
				if err := goOn(path); err != nil {
					t.Fatal(err)
				}
				for number, want := range c.want {
					if got := written(t, path+number); got != want {
						t.Fatalf("killed at hit %d %s has %s, want %s", hit, filepath.Base(path+number), got, want)
					}
				}
			}
		})
	}
}
