package archive

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/failpoint"
)

const archivePath = "TRINITY_TEST_ARCHIVE" // set in the process that is killed, or whose writes are traced

// A run that is killed at any failpoint while it writes steps again, and then resumes, has each
// step once and whole, as without the kill.
func TestKilledAtAnyFailpoint(t *testing.T) {
	resume := func(path string) error {
		w, err := New(path, "")
		if err != nil {
			return err
		}
		return errors.Join(w.Write(t.Context(), 3, nil), w.Write(t.Context(), 4, ofStep(4, 1)), w.Write(t.Context(), 5, ofStep(5, 2)))
	}
	if path := os.Getenv(archivePath); path != "" {
		if err := resume(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, form := range experience.Forms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			kills := 0
			for ended := false; !ended; kills++ {
				path := filepath.Join(t.TempDir(), "copy"+form)
				write(t, path, ofStep(1, 1), ofStep(2, 2), ofStep(3, 1), ofStep(4, 2))
				process := exec.Command(os.Args[0], "-test.run=^TestKilledAtAnyFailpoint$")
				process.Env = append(os.Environ(), archivePath+"="+path, fmt.Sprintf("%s=*=kill@%d", failpoint.Variable, kills+1))
				output, err := process.CombinedOutput()
				if ended = err == nil; !ended && strings.Contains(string(output), "FAIL") {
					t.Fatalf("%s", output)
				}
				for _, step := range strings.Fields(written(t, path)) { // every file is whole
					if !strings.Contains("1.0 2.0 2.1 3.0 4.0 4.1 5.0 5.1", step) {
						t.Errorf("killed at hit %d it has %s", kills+1, step)
					}
				}
				if _, err := New(path, ""); err != nil {
					t.Fatal(err)
				}
				if left, _ := filepath.Glob(filepath.Join(path, ".*")); len(left) > 0 {
					t.Errorf("killed at hit %d and opened again it has %v", kills+1, left)
				}
				if err := resume(path); err != nil {
					t.Fatal(err)
				}
				if got, want := written(t, path), "1.0 2.0 2.1 4.0 5.0 5.1"; got != want {
					t.Fatalf("killed at hit %d it has %s, want %s", kills+1, got, want)
				}
			}
			if kills < 10 {
				t.Errorf("the process was killed at %d failpoints", kills)
			}
		})
	}
}

// A step is on the disk when Write returns.
func TestStepsAreFlushed(t *testing.T) {
	if path := os.Getenv(archivePath); path != "" {
		w, err := New(path, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, groups := range []int{2, 0} {
			if err := w.Write(t.Context(), 1, ofStep(1, groups)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(os.Stderr, "written")
		}
		return
	}
	for _, form := range experience.Forms {
		path := filepath.Join(t.TempDir(), "copy"+form)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		process := exec.Command(os.Args[0], "-test.run=^TestStepsAreFlushed$")
		process.Env = append(os.Environ(), archivePath+"="+path, failpoint.Variable+"=*=trace")
		var trace strings.Builder
		process.Stderr = &trace
		if err := process.Run(); err != nil {
			t.Fatal(err, trace.String())
		}
		got := strings.NewReplacer("failpoint ", "", path+"/", "", path, ".", "\n", ", ").Replace(trace.String())
		step := "step-000000001" + form
		temporary := ".writing_" + step
		want := strings.Join([]string{"durable.file.create " + step, "durable.file.write " + temporary, "durable.file.sync " + temporary,
			"durable.synced " + temporary,
			"durable.file.rename " + step, "durable.file.renamed " + step, "durable.synced ., written", "durable.synced ., written, "}, ", ")
		if got != want {
			t.Errorf("%s: %s\nwant %s", form, got, want)
		}
	}
}
