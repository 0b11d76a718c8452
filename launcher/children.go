package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/process"
)

// child is a process of this machine that is a node of a group, or that holds the connection to one.
type child struct {
	on      string // the machine, for errors
	program process.Program
	input   []byte // its standard input, whose end makes it end; nil if only a signal does
}

// children is a group of child processes.
type children struct {
	clean func() error // removes what the group has, once its processes are gone
	kill  context.CancelFunc
	all   sync.WaitGroup
	said  process.Ends
	ended chan struct{} // closed when no process is left

	mu  sync.Mutex
	in  []io.Closer
	err error // of the first process that ended
}

// Times for the processes of a group to end: the others after the first one, because the driver
// tells them to, and all of them after the end of their input.
const (
	together = 5 * time.Second
	politely = 30 * time.Second
)

// startChildren starts a group. clean is called by Stop, also if the start fails.
func startChildren(list []child, clean func() error) (*children, error) {
	running, kill := context.WithCancel(context.Background())
	x := &children{clean: clean, kill: kill, ended: make(chan struct{})}
	var err error
	for _, c := range list {
		if err = x.start(running, c); err != nil {
			err = fmt.Errorf("%s: %w", c.on, err)
			break
		}
	}
	go func() {
		x.all.Wait()
		close(x.ended)
	}()
	if err != nil {
		return nil, errors.Join(err, x.Stop(context.Background()))
	}
	return x, nil
}

func (x *children) start(running context.Context, c child) error {
	c.program.Stderr = &x.said
	p, err := c.program.Start(running)
	if err != nil {
		return err
	}
	if c.input != nil {
		x.mu.Lock()
		x.in = append(x.in, p.In)
		x.mu.Unlock()
		go func() { _, _ = p.In.Write(c.input) }() // a process that ends before it has read all says why
	}
	x.all.Go(func() {
		_, _ = io.Copy(&x.said, p.Out)
		err := p.Wait()
		if err != nil {
			err = fmt.Errorf("%s: %w", c.on, err)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.err == nil {
			x.err = err
		}
		time.AfterFunc(together, x.end) // a group is whole or gone
	})
	return nil
}

// end makes the processes end.
func (x *children) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.in) == 0 {
		x.kill()
		return
	}
	for _, in := range x.in {
		_ = in.Close()
	}
	time.AfterFunc(politely, x.kill)
}

// Wait implements Launched.
func (x *children) Wait(ctx context.Context) error {
	select {
	case <-x.ended:
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop implements Launched.
func (x *children) Stop(ctx context.Context) error {
	x.end()
	select {
	case <-x.ended:
	case <-ctx.Done():
		x.kill()
		<-x.ended
	}
	x.kill()
	return x.clean()
}

// Logs implements Launched.
func (x *children) Logs(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, x.said.String())
	return err
}
