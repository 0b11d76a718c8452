package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// After Ctrl-C a working command ends with exit code 130. A run resumes where it stopped.
func TestInterruptEndsCommands(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals to send to a process")
	}
	dir := tiny(t)
	model := filepath.Join(dir, "model")
	sft := []string{
		"run", "--config", "testdata/sft.yaml", "name=stopped", "checkpoint_root_dir=" + dir, "model.model_path=" + model,
		"buffer.trainer_input.experience_buffer.path=" + filepath.FromSlash("../../examples/quickstart/data/sft.jsonl"),
	}
	t.Run("run", func(t *testing.T) {
		_, stderr := interrupted(t, "", "step 3/", append(sft, "buffer.total_steps=100000")...)
		for _, want := range []string{
			"stops a", "; Ctrl-C again ends it at once\n", "interrupted: the same command resumes from the last checkpoint",
		} {
			if strings.Count(stderr, want) != 1 {
				t.Errorf("standard error lacks %q:\n%s", want, stderr)
			}
		}
		newest, err := os.ReadFile(filepath.Join(dir, "cli", "stopped", "latest_checkpointed_iteration.txt"))
		if err != nil {
			t.Fatal(err)
		}
		out := trinity(t, "", append(sft, "buffer.total_steps=100000", "trainer.total_steps=1")...)
		if step := strings.TrimSpace(string(newest)); !strings.Contains(out, "global_step_"+step) {
			t.Errorf("the second run does not start from step %s:\n%s", step, out)
		}
	})
	t.Run("quiet run", func(t *testing.T) {
		args := append(sft, "--quiet", "buffer.total_steps=100000", "name=hushed")
		begun := func() bool {
			log, err := os.ReadFile(filepath.Join(dir, "cli", "hushed", "monitor", "metrics.jsonl"))
			return err == nil && bytes.Count(log, []byte("\n")) > 2
		}
		stderr := ended(t, syscall.SIGHUP, begun, args...)
		if strings.Count(stderr, "\n") != 2 || !strings.HasPrefix(stderr, "stops after the step") {
			t.Errorf("standard error has:\n%s", stderr)
		}
	})
	t.Run("generate", func(t *testing.T) {
		interrupted(t, `{"text":"ab"}`+"\n", `"finish_reason"`, "generate", "--model", model, "--input", "-", "--max-tokens", "2", "--json")
	})
	t.Run("score", func(t *testing.T) {
		interrupted(t, `{"text":"ab"}`+"\n", `"entropy"`, "score", "--model", model)
	})
	t.Run("serve", func(t *testing.T) {
		t.Setenv("TMPDIR", t.TempDir())
		interrupted(t, "", "serves model at http://127.0.0.1", "serve", "--model", model, "--port", "0")
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
			t.Errorf("the server left %v, %v", left, err)
		}
	})
	t.Run("eval", func(t *testing.T) {
		data, answers := filepath.Join(dir, "many.jsonl"), filepath.Join(dir, "answers.jsonl")
		if err := os.WriteFile(data, bytes.Repeat([]byte(`{"question":"1+2=?","answer":"3"}`+"\n"), 50_000), 0o644); err != nil {
			t.Fatal(err)
		}
		begun := func() bool {
			got, err := os.ReadFile(answers)
			return err == nil && bytes.Count(got, []byte("\n")) > 2
		}
		stderr := ended(t, syscall.SIGHUP, begun,
			"eval", data, "--model", model, "--reward", "accuracy_reward", "--max-tokens", "4", "-o", answers)
		got, err := os.ReadFile(answers)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("the evaluation ended early: %s has %d answers\n", answers, bytes.Count(got, []byte("\n")))
		if stderr != want || !bytes.HasSuffix(got, []byte("\n")) {
			t.Errorf("standard error is %q, want %q", stderr, want)
		}
	})
	t.Run("chat", func(t *testing.T) {
		interrupted(t, "hi\n", "\n", "chat", "--model", model, "--max-tokens", "1", "--temperature", "0")
	})
}

// interrupted starts a command, waits until its output contains the text, and sends SIGINT. It
// fails the test unless the exit code is 130. Standard input stays open.
func interrupted(t *testing.T, stdin, until string, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "trinity", args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	r, w := io.Pipe()
	cmd.Stderr = io.MultiWriter(&errs, w)
	go func() { _, _ = io.Copy(w, out); _ = w.Close() }()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, stdin); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	if !find(bufio.NewReader(io.TeeReader(r, &seen)), until) {
		t.Fatalf("the output never contained %q: %s", until, seen.String())
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(&seen, r) // ends when the command closes its output
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Fatalf("trinity %v: %v, want exit code 130: %s", args, err, errs.String())
	}
	return seen.String(), errs.String()
}

// ended starts a command and sends a signal twice once it has begun: a closing terminal does. It fails the
// test unless the exit code is 130, and returns the standard error. Under nohup, SIGHUP is ignored.
func ended(t *testing.T, by os.Signal, begun func() bool, args ...string) string {
	t.Helper()
	if signal.Ignored(by) {
		t.Skipf("%v is ignored here, as under nohup", by)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "trinity", args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !begun() && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	for range 2 {
		if err := cmd.Process.Signal(by); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Fatalf("trinity %v: %v, want exit code 130: %s", args, err, errs.String())
	}
	return errs.String()
}

// find reads until it has read the text. It returns false at the end of the input.
func find(r io.ByteReader, text string) bool {
	var got []byte
	for !bytes.HasSuffix(got, []byte(text)) {
		c, err := r.ReadByte()
		if err != nil {
			return false
		}
		got = append(got, c)
	}
	return true
}
