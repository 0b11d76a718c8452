package monitor

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/trinity-go/trinity"
)

const consoleName = "console"

func init() {
	Monitors.Register(consoleName, "Shows progress on standard error: a live display on a terminal, else one line per step.",
		func() trinity.Monitor { return newConsole(os.Stderr) })
}

// console shows progress to people. On a terminal it updates a few lines in place; meanwhile
// nothing else should write to the terminal. Elsewhere, and on a dumb terminal, it writes one line
// per step, and one after silence of 30 seconds.
type console struct {
	out   io.Writer
	size  func() (width, height int) // of the terminal; nil for plain lines
	every time.Duration              // between looks at the clock; 0 never looks

	mu      sync.Mutex
	run     Run
	display *display
	screen  screen
	plain   plain
	done    chan struct{} // closed by Close; nil if nobody looks at the clock
}

// silence is after how long without a line the console says what is going on.
const silence = 30 * time.Second

func newConsole(f *os.File) *console {
	c := &console{out: f, every: time.Second}
	if fd := int(f.Fd()); term.IsTerminal(fd) && os.Getenv("TERM") != "dumb" {
		c.size = func() (int, int) {
			w, h, err := term.GetSize(fd)
			if err != nil || w <= 0 || h <= 0 {
				return 80, 24
			}
			return w, h
		}
	}
	return c
}

// Open implements [Opener].
func (c *console) Open(run Run) error {
	c.run, c.display = run, newDisplay(run)
	c.plain = plain{run: run, last: c.display.started}
	c.screen.styled = os.Getenv("NO_COLOR") == ""
	if c.every > 0 {
		c.done = make(chan struct{})
		go c.watch()
	}
	return nil
}

// watch looks at the clock until Close.
func (c *console) watch() {
	ticker := time.NewTicker(c.every)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			_ = c.tick(now) // the next record reports a lost terminal
		case <-c.done:
			return
		}
	}
}

// tick shows the time that has passed.
func (c *console) tick(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.display.now = now
	if c.size != nil {
		return c.draw()
	}
	if now.Sub(c.plain.last) < silence {
		return nil
	}
	return c.write(now, c.plain.waiting(now, c.display.doings()))
}

// Log implements [trinity.Monitor].
func (c *console) Log(_ context.Context, r trinity.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.display.add(r)
	if c.size != nil {
		return c.draw()
	}
	return c.write(time.Now(), c.plain.lines(r)...)
}

// Progress implements [Progressor].
func (c *console) Progress(role, doing string, done, total int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.display.progress(role, doing, done, total)
}

// Span implements [Witness].
func (c *console) Span(s trinity.Span) { c.display.heard.span(s) }

// Failed implements [Witness].
func (c *console) Failed(f trinity.FailedRollout) { c.display.heard.fail(f) }

func (c *console) draw() error {
	width, height := c.size()
	_, err := c.out.Write(c.screen.frame(c.display.lines(width), width, height))
	return err
}

// write writes plain lines.
func (c *console) write(now time.Time, lines ...string) error {
	if len(lines) == 0 {
		return nil
	}
	c.plain.last = now
	_, err := io.WriteString(c.out, strings.Join(lines, "\n")+"\n")
	if errors.Is(err, syscall.EPIPE) { // nobody reads: the run goes on, and its other monitors have the record
		err = nil
	}
	return err
}

// Close implements [trinity.Monitor]. The last frame stays on the terminal, without what was going
// on.
func (c *console) Close() error {
	if c.done != nil {
		close(c.done)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size == nil {
		return c.write(time.Now(), c.plain.rest()...)
	}
	if len(c.screen.drawn) == 0 || len(c.display.doing) == 0 {
		return nil
	}
	clear(c.display.doing)
	return c.draw()
}
