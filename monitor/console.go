package monitor

import (
	"context"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/trinity-go/trinity"
)

func init() {
	Monitors.Register("console", "Shows progress on standard error: a live display on a terminal, else one line per record.",
		func() trinity.Monitor { return newConsole(os.Stderr) })
}

// console shows progress to people. On a terminal it updates a few lines in place; meanwhile
// nothing else should write to the terminal. Elsewhere, and on a dumb terminal, it writes one line
// per record.
type console struct {
	out  io.Writer
	size func() (width, height int) // of the terminal; nil for plain lines

	mu      sync.Mutex
	run     Run
	display *display
	screen  screen
}

func newConsole(f *os.File) *console {
	c := &console{out: f}
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
	c.screen.styled = os.Getenv("NO_COLOR") == ""
	return nil
}

// Log implements [trinity.Monitor].
func (c *console) Log(_ context.Context, r trinity.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size == nil {
		_, err := io.WriteString(c.out, plainLine(r, c.run.TotalSteps)+"\n")
		return err
	}
	c.display.add(r)
	width, height := c.size()
	_, err := c.out.Write(c.screen.frame(c.display.lines(width), width, height))
	return err
}

// Close implements [trinity.Monitor]. The last frame stays on the terminal.
func (c *console) Close() error { return nil }
