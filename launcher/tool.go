package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"time"

	"github.com/trinity-go/trinity/internal/process"
)

// toolTime is the time that a scheduler's program has to answer.
const toolTime = time.Minute

// tool runs a program of a scheduler, and returns what it prints. Its error quotes the program.
func tool(ctx context.Context, input []byte, command ...string) (string, error) {
	return patientTool(ctx, toolTime, input, command...)
}

func patientTool(ctx context.Context, patience time.Duration, input []byte, command ...string) (string, error) {
	if err := checkTool(command[0]); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it has not answered for %v", patience))
	defer cancel()
	var errs errorOutput
	out, err := (&process.Program{Command: command, Stderr: &errs}).Run(ctx, input, 4<<20)
	if err != nil {
		return "", fmt.Errorf("%s: %w", command[0], errs.shorten(err))
	}
	return string(out), nil
}

// errorOutput keeps what a program writes to its standard error, but for lines of its log: kubectl's repeat an error
// several times before it says it.
type errorOutput struct {
	said   process.Ends
	line   []byte // which has not ended
	logged bool   // a line of the log was left out
}

var logLine = regexp.MustCompile(`^[EWIF]\d{4} \d\d:`)

// Write implements io.Writer.
func (t *errorOutput) Write(p []byte) (int, error) {
	t.line = append(t.line, p...)
	for {
		line, rest, ended := bytes.Cut(t.line, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		t.keep(line)
		t.line = bytes.Clone(rest)
	}
}

func (t *errorOutput) keep(line []byte) {
	if logLine.Match(line) {
		t.logged = true
		return
	}
	_, _ = t.said.Write(append(line, '\n'))
}

// shorten returns an error of process.Program with what the program said without its log, if it said more
// than that.
func (t *errorOutput) shorten(err error) error {
	t.keep(t.line)
	said, why := t.said.String(), errors.Unwrap(err)
	if !t.logged || said == "" || why == nil {
		return err
	}
	return fmt.Errorf("%w; it said: %s", why, said)
}

// stream runs a program of a scheduler, and writes what it prints as it comes.
func stream(ctx context.Context, w io.Writer, command ...string) error {
	if err := checkTool(command[0]); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	p, err := (&process.Program{Command: command}).Start(running)
	if err != nil {
		return err
	}
	_ = p.In.Close()
	_, unwritten := io.Copy(w, p.Out)
	if unwritten != nil {
		stop()
	}
	if err := p.Wait(); err != nil && unwritten == nil {
		return fmt.Errorf("%s: %w", command[0], err)
	}
	return unwritten
}

// checkTool returns an error unless a scheduler's program is on this machine.
func checkTool(name string) error {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%s is not on this machine: use one from which you reach the scheduler, or another cluster.launcher", name)
	}
	return nil
}
