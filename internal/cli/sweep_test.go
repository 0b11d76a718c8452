package cli_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A sweep that Ctrl-C or a kill has ended goes on: after Ctrl-C from the checkpoints of its runs.
// After a kill no run is still at work.
func TestSweepGoesOn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends the children of a killed process, and Windows has no signals to send to one")
	}
	dir := tiny(t)
	model := filepath.Join(dir, "model")
	for how, signal := range map[string]os.Signal{"interrupted": os.Interrupt, "killed": os.Kill} {
		t.Run(how, func(t *testing.T) {
			args := []string{
				"sweep", "--config", "testdata/sft.yaml", "name=" + how, "checkpoint_root_dir=" + dir, "model.model_path=" + model,
				"buffer.trainer_input.experience_buffer.path=" + filepath.FromSlash("../../examples/quickstart/data/sft.jsonl"),
				"buffer.total_steps=100000", "--seeds", "2", "--parallel", "2",
			}
			jobs := []string{filepath.Join(dir, "cli", how+"_seed42"), filepath.Join(dir, "cli", how+"_seed43")}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "trinity", args...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for _, job := range jobs {
				for !logHas(job, "step 3/") {
					if ctx.Err() != nil {
						t.Fatalf("%s never came to step 3: %s", job, stderr.String())
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || signal == os.Interrupt && exit.ExitCode() != 130 {
				t.Fatalf("%v, want exit code 130: %s", err, stderr.String())
			}
			if signal == os.Interrupt {
				if strings.Count(stderr.String(), "interrupted: the same command goes on") != 1 {
					t.Errorf("standard error is %s", stderr.String())
				}
				for _, job := range jobs {
					if _, err := os.Stat(filepath.Join(job, "latest_checkpointed_iteration.txt")); err != nil {
						t.Errorf("a run has no checkpoint: %v", err)
					}
				}
			}
			out := trinityProcess(t, append(args, "trainer.total_steps=4")...)
			if want := "actor/final_loss  " + how; !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
			for _, job := range jobs {
				if resumed := logHas(job, ", resumes after step "); resumed != (signal == os.Interrupt) {
					t.Errorf("%s resumes: %v", job, resumed)
				}
			}
		})
	}
}

func logHas(job, text string) bool {
	log, _ := os.ReadFile(filepath.Join(job, "sweep.log")) // it may not be there yet
	return bytes.Contains(log, []byte(text))
}

// trinityProcess runs a command in a process of its own, as commands need that start this program
// again, and returns its standard output. The command must succeed.
func trinityProcess(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "trinity", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("trinity %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
