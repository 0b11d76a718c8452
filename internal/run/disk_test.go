package run_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/durable"
)

// The error for a directory that cannot be written is one line, before the run computes anything.
func TestAnUnwritableDirectoryIsOneLine(t *testing.T) {
	p := newProject(t, tiny, rl)
	write(t, filepath.Join(p.dir, "checkpoints"), "a file where the directory should be")
	_, err := p.run(t)
	oneLine(t, err, filepath.Join(p.dir, "checkpoints"), "not a directory")
}

// A checkpoint that does not fit ends the run with one line. With room again, the same command ends
// with the same bytes.
func TestARunResumesAfterAFullDisk(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no ulimit")
	}
	whole := newProject(t, tiny, sft)
	full := whole.copyOf(t)
	whole.start(t, nil).finish(t)

	limit := func(c *exec.Cmd) { // no file may be larger than 64 KiB
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `ulimit -f 128; exec "$0"`, c.Path}
	}
	c := full.startAs(t, limit, nil)
	if err := <-c.done; err == nil {
		t.Fatal("a checkpoint of more than 64 KiB was written")
	}
	if out := c.output.String(); strings.Count(out, "\n") != 1 || !strings.Contains(out, "checkpoint at step 2") ||
		!strings.Contains(out, "state.safetensors") {
		t.Errorf("the run ended with\n%s\nwant one line that names the step and the file", out)
	}
	full.start(t, nil).finish(t)
	results(t, full.dir).sameAs(t, results(t, whole.dir))
}

// The error for a damaged checkpoint, or log of experiences, is one line that names the file.
func TestDamageIsReportedWithItsFile(t *testing.T) {
	p := newProject(t, tiny, rl)
	backlog := []string{"trainer.total_steps=1", "buffer.train_batch_size=9",
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=9"} // leaves 3 pending
	if _, err := p.run(t, backlog...); err != nil {
		t.Fatal(err)
	}
	damages := map[string]func(string) string{
		"cut":     func(s string) string { return s[:len(s)/2] },
		"short":   func(s string) string { return s[:1+strings.LastIndexByte(s[:max(0, len(s)-1)], '\n')] },
		"emptied": func(string) string { return "" },
		"garbage": func(s string) string { return strings.Repeat("\xff", len(s)) },
	}
	log := filepath.Join(p.job(), "buffer", "experience_buffer")
	for dir, files := range map[string]int{filepath.Join(p.job(), "global_step_1"): 5, log: 1} {
		seen := 0
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			// The model is not read again, and a lock, which a run that resumes leaves, has nothing in it.
			if err != nil || d.IsDir() || strings.Contains(path, "huggingface") || strings.HasPrefix(d.Name(), durable.LockPrefix) {
				return err
			}
			seen++
			sound := read(t, path)
			refused := func(name string, damage func() error) {
				t.Run(fmt.Sprint(d.Name(), " ", name), func(t *testing.T) {
					defer write(t, path, sound)
					if err := damage(); err != nil {
						t.Fatal(err)
					}
					_, err := p.run(t, backlog...)
					oneLine(t, err, filepath.Dir(path))
				})
			}
			refused("missing", func() error { return os.Remove(path) })
			for name, damage := range damages {
				ends := name == "cut" || name == "short" // which is what a kill may do to the end of a log
				if damaged := damage(sound); damaged != sound && !(ends && dir == log) {
					refused(name, func() error { return os.WriteFile(path, []byte(damaged), 0o644) })
				}
			}
			return nil
		})
		if err != nil || seen != files {
			t.Errorf("%d files of %s were damaged, want %d: %v", seen, dir, files, err)
		}
	}
}
