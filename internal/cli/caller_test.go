package cli_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A Python process that has started a run ends the run's standard input to stop it with a checkpoint. Its death does
// the same, and closes what the run writes to as well.
func TestCallerStopsARun(t *testing.T) {
	dir := tiny(t)
	for _, name := range []string{"stopped", "orphan"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "trinity", "run", "--config", "testdata/sft.yaml", "name="+name, "checkpoint_root_dir="+dir,
			"model.model_path="+filepath.Join(dir, "model"), "buffer.total_steps=100000",
			"buffer.trainer_input.experience_buffer.path="+filepath.FromSlash("../../examples/quickstart/data/sft.jsonl"))
		cmd.Env = append(os.Environ(), "TRINITY_CALLER=127.0.0.1:9")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		said, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !find(bufio.NewReader(said), "step 3/") {
			t.Fatal("the run made no three steps")
		}
		in.Close()
		if name == "orphan" {
			said.Close()
		} else {
			go func() { _ = find(bufio.NewReader(said), "\x00") }() // reads to the end
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
			t.Errorf("%s: %v, want exit code 130", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "cli", name, "latest_checkpointed_iteration.txt")); err != nil {
			t.Error(err)
		}
	}
}
