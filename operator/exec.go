package operator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("exec",
		"Edits a step with a program in any language. The operator starts the program once a step. The "+
			"program reads experiences from its standard input, one JSON object a line, and writes the "+
			"experiences to keep to its standard output. "+
			wireForm+
			" The step ends when the program exits; the operator kills child processes that it left running. A "+
			"program that exits with a status other than 0, or does not end in time, ends the run. The error "+
			"quotes the beginning and the end of its standard error. Metrics: filtered_count, "+
			"reward_diff/{mean,max,min}.",
		func() trinity.Operator { return &execOperator{Timeout: 60} })
}

// execOperator runs a program on each step.
type execOperator struct {
	Command   []string `yaml:"command" doc:"the program and its arguments, without a shell"`
	Timeout   float64  `yaml:"timeout" doc:"seconds for one step; after that the operator kills the program and its child processes"`
	MaxMemory int      `yaml:"max_memory_mb" doc:"MiB of address space for each of its processes (Linux only); 0 sets no limit"`
}

// maxAnswer bounds the answer of a program or a server to one step, in bytes.
const maxAnswer = 256 << 20

// Validate requires a program that exists.
func (x *execOperator) Validate() error {
	switch {
	case len(x.Command) == 0:
		return errors.New("command: name a program, such as [python3, score.py]")
	case !(x.Timeout > 0):
		return fmt.Errorf("timeout: must be more than 0 seconds, got %g", x.Timeout)
	case x.MaxMemory < 0:
		return fmt.Errorf("max_memory_mb: must not be negative, got %d", x.MaxMemory)
	case x.MaxMemory > 0 && runtime.GOOS != "linux":
		return fmt.Errorf("max_memory_mb: not supported on %s: leave it out", runtime.GOOS)
	}
	if _, err := exec.LookPath(x.Command[0]); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	return nil
}

// Process implements trinity.Operator.
func (x *execOperator) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	lines, err := encode(groups)
	if err != nil || len(lines) == 0 {
		return nil, nil, err
	}
	out, err := x.run(ctx, bytes.Join(lines, nil))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", strings.Join(x.Command, " "), err)
	}
	answers, err := decode(out.Bytes())
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", strings.Join(x.Command, " "), err)
	}
	return edit(groups, lines, answers)
}

// run starts the program with input as its standard input and returns its standard output.
func (x *execOperator) run(ctx context.Context, input []byte) (*bytes.Buffer, error) {
	late := fmt.Errorf("did not end within timeout = %g s", x.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(x.Timeout*float64(time.Second)), late)
	defer cancel()
	argv := x.Command
	if x.MaxMemory > 0 {
		argv = append([]string{"sh", "-c", `ulimit -v "$1" && shift && exec "$@"`, "sh", fmt.Sprint(x.MaxMemory << 10)}, argv...)
	}
	out, said := &bounded{}, &ends{}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	err := feed(cmd, input, out, said)
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case out.full:
		err = fmt.Errorf("wrote more than %d MiB", maxAnswer>>20)
	}
	if err != nil && said.String() != "" {
		err = fmt.Errorf("%w; it said: %s", err, said)
	}
	return &out.text, err
}

// feed runs a program until its own process exits, and reads all that it has written until then. It
// kills child processes that are left running, even if they hold the pipes open.
func feed(cmd *exec.Cmd, input []byte, out, said io.Writer) error {
	ours, theirs, err := pipes()
	defer closeAll(ours)
	defer closeAll(theirs)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	asGroup(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	closeAll(theirs)
	var streams sync.WaitGroup
	var read [2]error
	streams.Go(func() {
		_, _ = ours[0].Write(input) // a program may exit before it has read everything
		ours[0].Close()
	})
	for i, to := range []io.Writer{out, said} {
		streams.Go(func() {
			_, err := io.Copy(to, ours[1+i])
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = drain(to, ours[1+i])
			}
			read[i] = err
			ours[1+i].Close()
		})
	}
	err = cmd.Wait()
	killGroup(cmd)
	_ = ours[0].SetWriteDeadline(time.Now())
	for _, f := range ours[1:] { // a process that left the group may hold them open
		_ = f.SetReadDeadline(time.Now())
	}
	streams.Wait()
	return cmp.Or(err, read[0], read[1])
}

// pipes returns both ends of the program's standard input, output and error: ours, and the
// program's.
func pipes() (ours, theirs []*os.File, err error) {
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return ours, theirs, err
		}
		if i == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	return ours, theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// bounded is a writer that keeps up to maxAnswer bytes and fails after that.
type bounded struct {
	text bytes.Buffer
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.full = b.full || b.text.Len()+len(p) > maxAnswer; b.full {
		return 0, errors.New("too long")
	}
	return b.text.Write(p)
}

// ends is a writer that keeps the beginning and the end of a text, because some languages report
// an error first and others last.
type ends struct{ head, tail []byte }

func (e *ends) Write(p []byte) (int, error) {
	const most = 1000
	n := min(len(p), most-len(e.head))
	e.head, e.tail = append(e.head, p[:n]...), append(e.tail, p[n:]...)
	e.tail = slices.Clone(e.tail[max(0, len(e.tail)-most):])
	return len(p), nil
}

// String returns the text in one line.
func (e *ends) String() string {
	return strings.Join(strings.Fields(string(e.head)+string(e.tail)), " ")
}
