package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"
)

// maxMemory bounds the memory of a function that Confine confines, on Linux.
const maxMemory = 4 << 30

// ErrMemory is the error of a confined function that has no memory left.
var ErrMemory = errors.New("it needs more memory")

// Confined is a function of this binary that runs in a child process, such as a library that
// allocates what a damaged file says: Go ends a process that has no memory, and no code can prevent
// it. On Linux the child has a limit of 4 GiB, and is the first to be killed if the machine has no
// memory. Elsewhere the system decides how much it gets.
type Confined struct {
	name   string
	memory int64 // bytes
}

// Confine names a function that [Confined.Run] runs. It must initialise a package variable, because
// a child process runs body there, instead of main.
func Confine(name string, body func(in *io.SectionReader, out io.Writer) error) Confined {
	return ConfineTo(name, maxMemory, body)
}

// ConfineTo is Confine with another limit of memory, in bytes.
func ConfineTo(name string, memory int64, body func(in *io.SectionReader, out io.Writer) error) Confined {
	Role(name, func() int {
		signal.Ignore(os.Interrupt) // the parent ends it
		go endWith(os.Getppid())
		err := limitMemory(uint64(memory))
		var in *io.SectionReader
		if err == nil {
			in, err = section(os.Stdin)
		}
		if err == nil {
			err = body(in, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	})
	return Confined{name, memory}
}

// endWith ends this process after its parent.
func endWith(parent int) {
	for ; os.Getppid() == parent; time.Sleep(time.Second) {
	}
	os.Exit(1)
}

// section returns a file, or the whole of a pipe.
func section(f *os.File) (*io.SectionReader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() {
		return io.NewSectionReader(f, 0, info.Size()), nil
	}
	data, err := io.ReadAll(f)
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))), err
}

// Run runs the function with in as its input; read takes what it writes. The end of ctx and an
// error of read kill it. The error of the function, and what killed it, is an error.
func (c Confined) Run(ctx context.Context, in io.Reader, read func(out io.Reader) error) error {
	path, err := Self()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = []string{"trinity-" + c.name}
	cmd.Env = roleOf(c.name)
	cmd.WaitDelay = ending
	var said Ends
	cmd.Stdin, cmd.Stderr = in, &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	unread := read(out)
	if unread != nil {
		_ = cmd.Process.Kill()
	}
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ended != nil && len(said.head) > 0:
		if text := said.String(); strings.Contains(text, "out of memory") ||
			strings.Contains(text, "cannot allocate memory") || strings.Contains(text, "failed to allocate") || // the race detector's words
			strings.HasPrefix(text, "SIGSEGV") { // in Go's allocator
			return fmt.Errorf("%w than %s", ErrMemory, allowed(c.memory))
		}
		text, _, _ := strings.Cut(string(said.head), "\n\n") // the stack of a crash follows
		return errors.New(strings.Join(strings.Fields(text), " "))
	case unread != nil:
		return unread
	}
	return ended
}
