package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
)

// A run that fails before it opens its monitors says so where the studio looks, and another try begins in the
// same directory.
func TestRunThatFailsBeforeItBegins(t *testing.T) {
	for name, c := range map[string]struct{ override, want string }{
		"no data":     {"buffer.explorer_input.taskset.path=DIR/none.jsonl", "none.jsonl"},
		"broken data": {"buffer.explorer_input.taskset.path=DIR/broken.jsonl", "broken.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			write(t, filepath.Join(p.dir, "broken.jsonl"), "{")
			home := filepath.Join(p.job(), "monitor")
			if name == "no data" { // it is refused before anything is written
				_, err := p.run(t, strings.ReplaceAll(c.override, "DIR", p.dir))
				if oneLine(t, err, c.want); exists(p.job()) {
					t.Error("a run that was refused has a directory")
				}
				if err := os.MkdirAll(p.job(), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				_, err := p.run(t, strings.ReplaceAll(c.override, "DIR", p.dir), "continue_from_checkpoint=false")
				oneLine(t, err, c.want)
				about, readErr := rundir.ReadAbout(home)
				if readErr != nil || len(about.Parts) != 2 || about.Name != "r" || about.Settings["algorithm.algorithm_type"] != "grpo" {
					t.Fatalf("%+v, %v", about, readErr)
				}
				for part, how := range about.Parts {
					if how.Status != monitor.Failed || how.Error != err.Error() {
						t.Errorf("%s: %+v, want %v", part, how, err)
					}
				}
				if !strings.Contains(read(t, filepath.Join(home, rundir.SettingsFile)), "grpo") {
					t.Error("the settings of the run are not there")
				}
			}
			if name == "no data" { // the other one has a buffer
				if _, err := p.run(t, "continue_from_checkpoint=false", "buffer.total_steps=1", noEvaluation); err != nil {
					t.Fatal(err)
				}
				about, err := rundir.ReadAbout(home)
				if err != nil || about.Parts["trainer"].Status != monitor.Finished {
					t.Errorf("%+v, %v", about, err)
				}
			}
			if all := glob(t, p.job()+"*"); len(all) != 1 && name == "no data" {
				t.Errorf("there are the directories %v", all)
			}
		})
	}
}

// A try that fails tells nothing of a run that another process does, and a run that began is never begun anew
// in its directory.
func TestFailureOfAnotherProcess(t *testing.T) {
	p := newProject(t, tiny, rl)
	if err := os.MkdirAll(p.job(), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TakeLock(p.job(), "trainer", "")
	if err != nil {
		t.Fatal(err)
	}
	about := filepath.Join(p.job(), "monitor", rundir.AboutFile)
	_, err = p.run(t, "buffer.explorer_input.taskset.path=none.jsonl")
	oneLine(t, err, "none.jsonl")
	if exists(about) {
		t.Errorf("told %s", read(t, about))
	}
	lock.Release()
	_, err = p.run(t, "buffer.explorer_input.taskset.path=none.jsonl")
	oneLine(t, err, "none.jsonl")
	time.Sleep(2 * time.Millisecond) // a process that begins in the millisecond of a failure counts as the one that failed
	if lock, err = durable.TakeLock(p.job(), "trainer", ""); err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if _, err := p.run(t, "continue_from_checkpoint=false", "buffer.total_steps=1", noEvaluation); err != nil {
		t.Fatal(err)
	}
	if all := glob(t, p.job()+"_*"); len(all) != 1 {
		t.Errorf("beside a process that begins another one uses %v", all)
	}
}
