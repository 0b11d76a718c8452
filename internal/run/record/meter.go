package record

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// meter shows the progress of work on files. On a terminal it is a line that changes, elsewhere a
// new line every ten seconds. It shows nothing of a file that takes less than a second.
type meter struct {
	doing string
	bar   io.Writer // a terminal, or nil
	say   func(string)
	now   func() time.Time

	file        string
	begun, last time.Time
	drawn       bool
}

// NewMeter returns a meter that writes to the terminal, or to say if there is none.
func NewMeter(doing string, say func(string)) *meter {
	m := &meter{doing: doing, say: say, now: time.Now}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		m.bar = os.Stderr
	}
	return m
}

// Tell notes that so much of a file is done.
func (m *meter) Tell(file string, done, total int64) {
	now := m.now()
	if file != m.file {
		m.file, m.begun, m.last = file, now, now
	}
	every := 10 * time.Second
	if m.bar != nil {
		every = time.Second
	}
	long, over := now.Sub(m.last) >= every, done >= total
	if !long && !(over && m.drawn) {
		return
	}
	m.last = now
	text := fmt.Sprintf("%s%s: %d %%, %s", m.doing, file, 100*done/max(1, total), now.Sub(m.begun).Round(time.Second))
	if m.bar == nil {
		m.say(text)
		return
	}
	m.drawn = !over
	end := "\x1b[K" // erases the rest of a longer line before
	if over {
		end += "\n"
	}
	_, _ = io.WriteString(m.bar, "\r"+text+end) // a lost terminal does not end the run
}
