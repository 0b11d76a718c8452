package launcher

import (
	"context"
	"fmt"
	"io"
	"os/exec"
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
	out, err := (&process.Program{Command: command}).Run(ctx, input, 4<<20)
	if err != nil {
		return "", fmt.Errorf("%s: %w", command[0], err)
	}
	return string(out), nil
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
