package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/failpoint"
)

// hangs is the time after which a process fails its test and prints its goroutines. It is far more
// than any process takes on a slow machine.
const hangs = 5 * time.Minute

// process is a run in a process of its own.
type process struct {
	cmd    *exec.Cmd
	output bytes.Buffer
	done   chan error
}

// start runs the project in a new process, with further environment.
func (p project) start(t *testing.T, env []string, overrides ...string) *process {
	t.Helper()
	return p.startAs(t, func(*exec.Cmd) {}, env, overrides...)
}

// startAs changes the command before it starts.
func (p project) startAs(t *testing.T, change func(*exec.Cmd), env []string, overrides ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	t.Cleanup(cancel)
	c := &process{cmd: exec.CommandContext(ctx, os.Args[0]), done: make(chan error, 1)}
	c.cmd.Cancel = func() error {
		if ctx.Err() == context.DeadlineExceeded && c.cmd.Process.Signal(syscall.SIGQUIT) == nil { // it prints its goroutines
			return nil
		}
		return c.cmd.Process.Kill()
	}
	c.cmd.WaitDelay = 30 * time.Second // between the signal and the kill
	c.cmd.Env = append(os.Environ(), childConfig+"="+p.config, childOverrides+"="+strings.Join(overrides, "\n"))
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stdout, c.cmd.Stderr = &c.output, &c.output
	change(c.cmd)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		err := c.cmd.Wait()
		if err != nil && ctx.Err() == context.DeadlineExceeded {
			err = fmt.Errorf("the process hung: it did not end within %v (%v)", hangs, err) // no exit status, so wasKilled is false
		}
		c.done <- err
	}()
	return c
}

// wasKilled reports whether the test or a failpoint has killed the process that ended with err.
func wasKilled(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == -1
}

// finish waits until the process ends by itself, without an error.
func (c *process) finish(t *testing.T) {
	t.Helper()
	if err := <-c.done; err != nil {
		t.Fatalf("%v\n%s", err, &c.output)
	}
}

// await waits until due returns true. It returns false if the process ended without an error first.
func (c *process) await(t *testing.T, due func() bool) bool {
	t.Helper()
	for !due() {
		select {
		case err := <-c.done:
			if err != nil {
				t.Fatalf("%v\n%s", err, &c.output)
			}
			return false
		case <-time.After(200 * time.Microsecond):
		}
	}
	return true
}

// signalWhen sends a signal once due returns true, and reports whether the signal ended the
// process. It returns false if the process ended without an error first.
func (c *process) signalWhen(t *testing.T, sig os.Signal, due func() bool) bool {
	t.Helper()
	if !c.await(t, due) {
		return false
	}
	if err := c.cmd.Process.Signal(sig); err != nil && err != os.ErrProcessDone {
		t.Fatal(err)
	}
	err := <-c.done
	switch {
	case err == nil:
		return false
	case c.cmd.ProcessState.ExitCode() == interruptCode && sig == os.Interrupt, wasKilled(err) && sig == os.Kill:
		return true
	}
	t.Fatalf("%v\n%s", err, &c.output)
	return false
}

// fails waits until the process ends by itself with one line that has all the texts.
func (c *process) fails(t *testing.T, texts ...string) {
	t.Helper()
	if err := <-c.done; err == nil || c.cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v, want exit status 1\n%s", err, &c.output)
	}
	oneLine(t, errors.New(strings.TrimSuffix(c.output.String(), "\n")), texts...)
}

// killedWithin waits for the end of the process, which kills itself at a failpoint. If d > 0,
// killedWithin kills it after d. It returns false if the process ended without an error.
func (c *process) killedWithin(t *testing.T, d time.Duration) bool {
	t.Helper()
	if d > 0 {
		kill := time.AfterFunc(d, func() { _ = c.cmd.Process.Kill() }) // it may have ended
		defer kill.Stop()
	}
	err := <-c.done
	if err != nil && !wasKilled(err) {
		t.Fatalf("%v\n%s", err, &c.output)
	}
	return err != nil
}

// killedAt runs the project in a new process until a failpoint kills it. It returns false if the process
// ended without an error.
func (p project) killedAt(t *testing.T, rule string, overrides ...string) bool {
	t.Helper()
	return p.start(t, []string{failpoint.Variable + "=" + rule}, overrides...).killedWithin(t, 0)
}

// appears returns a function that reports whether a new file matches the pattern, which is relative
// to the run's directory.
func (p project) appears(pattern string) func() bool {
	pattern = filepath.Join(p.job(), pattern)
	before := exists(pattern)
	return func() bool { return !before && exists(pattern) }
}

// trains returns a function that reports whether the trainer has logged another step. A stop then
// has something to save.
func (p project) trains(t *testing.T) func() bool {
	before := p.trained(t)
	return func() bool { return p.trained(t) > before }
}

// trained returns the last step that the trainer has logged.
func (p project) trained(t *testing.T) (step int64) {
	path := filepath.Join(p.job(), "monitor", "metrics.jsonl")
	if !exists(path) {
		return 0
	}
	for line := range strings.Lines(read(t, path)) {
		var e entry
		if json.Unmarshal([]byte(line), &e) == nil && e.Role == "trainer" { // the last line may be half written
			step = e.Step
		}
	}
	return step
}

// after is due so long after now.
func after(d time.Duration) func() bool {
	when := time.Now().Add(d)
	return func() bool { return time.Now().After(when) }
}
