// Package process runs programs in child processes, with limits, and ends them with all processes
// that they have started.
//
// On Linux each program has a supervisor: this binary, started again. It adopts every descendant of
// the program, also one in a session of its own, and kills all of them when the program exits, when
// the run asks for it and when the run itself has ended. On other Unix systems a program has a
// process group, which is killed as a whole: a descendant that leaves the group lives on. On Windows
// only the program itself is killed.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// Program is a program that a configuration names.
type Program struct {
	Path      string            // of the program; "" looks Command[0] up
	Command   []string          // the program and its arguments
	Env       map[string]string // variables besides those of this process
	Alone     bool              // Env has all variables
	Foreign   bool              // it gets none of the tokens by which processes of a run know one another
	MaxMemory int64             // bytes of address space for each of its processes, on Linux; 0 sets no limit
	Stdout    io.Writer         // gets its standard output, which Run then does not return; may be nil
	Stderr    io.Writer         // gets its standard error as well; may be nil
	Dir       string            // its working directory; "" is that of this process
	Scratch   string            // on Linux: a directory that is removed with the program if this process is killed
	Files     []*os.File        // its descriptors 3, 4, …
	Role      string            // on Linux: the program is this binary in a role, whatever Command[0] says

	// Expendable makes the program the first that Linux kills if the machine has no memory.
	Expendable bool
}

// Process is a program that has started.
type Process struct {
	In  io.WriteCloser // standard input
	Out io.Reader      // standard output; it ends after the program and all its descendants

	cmd      *exec.Cmd
	conn     io.Closer // in place of cmd for a process that was there already
	killRest func()
	ended    func() error // why the context has ended; nil if it has not
	said     Ends
}

// ending is the time for descendants to die and for pipes to close after a program's exit or kill.
const ending = 10 * time.Second

// Start starts the program. The end of ctx kills it and its descendants.
func (p *Program) Start(ctx context.Context) (*Process, error) {
	x, err := p.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if x.In, err = x.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if x.Out, err = x.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return x, x.cmd.Start()
}

// Run starts the program with input as its standard input, and returns its standard output once it
// has exited. An output of more than most bytes is an error, unless Stdout takes it.
func (p *Program) Run(ctx context.Context, input []byte, most int) ([]byte, error) {
	x, err := p.prepare(ctx)
	if err != nil {
		return nil, err
	}
	out := &Bounded{Most: most}
	x.cmd.Stdin, x.cmd.Stdout = bytes.NewReader(input), out
	if p.Stdout != nil {
		x.cmd.Stdout = p.Stdout
	}
	if err := x.cmd.Start(); err != nil {
		return nil, err
	}
	err = x.Wait()
	if out.Full {
		err = fmt.Errorf("wrote more than %d MiB%s", most>>20, x.said.quoted())
	}
	return out.Text.Bytes(), err
}

// Cmd returns a command that starts the program; its standard files are the caller's to set. The end
// of ctx kills the program and its descendants. killRest kills the descendants that the program has
// left running, and must be called after the command's Wait.
func (p *Program) Cmd(ctx context.Context) (cmd *exec.Cmd, killRest func(), err error) {
	path := p.Path
	switch {
	case p.Role != "":
		path, err = Self()
	case path == "":
		path, err = exec.LookPath(p.Command[0])
	}
	if err != nil {
		return nil, nil, err
	}
	cmd = p.command(ctx, path)
	cmd.WaitDelay = ending
	return cmd, func() { killGroup(cmd) }, nil
}

// environment returns the program's environment.
func (p *Program) environment() []string {
	all := []string{}
	if !p.Alone {
		all = slices.DeleteFunc(os.Environ(), func(v string) bool { return p.Foreign && isToken(v) })
	}
	for name, value := range p.Env {
		all = append(all, name+"="+value)
	}
	return all
}

// isToken reports whether a variable, NAME=value, holds a token of this program.
func isToken(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return strings.HasPrefix(name, "TRINITY_") && strings.HasSuffix(name, "TOKEN")
}

func (p *Program) prepare(ctx context.Context) (*Process, error) {
	cmd, rest, err := p.Cmd(ctx)
	if err != nil {
		return nil, err
	}
	x := &Process{cmd: cmd, killRest: rest, ended: func() error { return context.Cause(ctx) }}
	x.cmd.Stderr = &x.said
	if p.Stderr != nil {
		x.cmd.Stderr = io.MultiWriter(&x.said, p.Stderr)
	}
	return x, nil
}

// Wait waits until the program has exited, and kills the descendants that it left running. Read Out
// to its end before. The error quotes the beginning and the end of its standard error.
func (x *Process) Wait() error {
	if x.conn != nil {
		x.conn.Close()
		return x.ended()
	}
	err := x.cmd.Wait()
	x.killRest()
	if errors.Is(err, exec.ErrWaitDelay) { // a process that left the group holds the pipes open
		err = nil
	}
	if cause := x.ended(); cause != nil {
		err = cause
	}
	if err != nil {
		err = fmt.Errorf("%w%s", err, x.said.quoted())
	}
	return err
}

// Kill kills the program and its descendants. Wait must still be called.
func (x *Process) Kill() {
	if x.conn != nil {
		x.conn.Close()
		return
	}
	_ = x.cmd.Cancel()
}

// Bounded is a writer that keeps up to Most bytes. A write that would exceed them fails, as does
// every write after it; Full is then set.
type Bounded struct {
	Most int
	Text bytes.Buffer
	Full bool
}

// Write implements io.Writer.
func (b *Bounded) Write(p []byte) (int, error) {
	if b.Full = b.Full || b.Text.Len()+len(p) > b.Most; b.Full {
		return 0, errors.New("too long")
	}
	return b.Text.Write(p)
}

// Ends is a writer that keeps the beginning and the end of a text, because some languages report
// an error first and others last. It is safe for concurrent use.
type Ends struct {
	mu         sync.Mutex
	head, tail []byte
	cut        bool // there was something between them
}

// Write implements io.Writer.
func (e *Ends) Write(p []byte) (int, error) {
	const most = 1000
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(len(p), most-len(e.head))
	e.head, e.tail = append(e.head, p[:n]...), append(e.tail, p[n:]...)
	e.cut = e.cut || len(e.tail) > most
	e.tail = slices.Clone(e.tail[max(0, len(e.tail)-most):])
	return len(p), nil
}

// Last returns the last bytes of the text that were kept.
func (e *Ends) Last() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append(slices.Clone(e.head), e.tail...)
}

// String returns the text in one line, with " … " in place of a middle that was not kept. It leaves out
// characters that are cut there.
func (e *Ends) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := string(e.head)
	if e.cut {
		text += " … "
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(text+string(e.tail), "")), " ")
}

func (e *Ends) quoted() string {
	if text := e.String(); text != "" {
		return "; it said: " + text
	}
	return ""
}
