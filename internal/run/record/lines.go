package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
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

// maxPluginLog bounds plugins.log, in bytes.
const maxPluginLog = 64 << 20

// boundedLog is a file that plug-ins and their programs write to. A full one is renamed to NAME.1, in
// place of the one before, so that a program that talks for days does not fill the disk.
type boundedLog struct {
	dir, name string
	most      int64 // bytes

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenPluginLog opens what plug-ins and their programs say, in the log files of a stage.
func OpenPluginLog(dir string) (io.WriteCloser, error) {
	return openBoundedLog(dir, "plugins.log", maxPluginLog)
}

func openBoundedLog(dir, name string, most int64) (*boundedLog, error) {
	l := &boundedLog{dir: dir, name: name, most: most}
	return l, l.open()
}

func (l *boundedLog) open() (err error) {
	if l.file, err = OpenLines(l.dir, l.name); err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return errors.Join(err, l.file.Close())
	}
	l.size = info.Size()
	return nil
}

// Write implements io.Writer.
func (l *boundedLog) Write(p []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > l.most {
		path := filepath.Join(l.dir, l.name)
		if err := errors.Join(l.file.Close(), os.Rename(path, path+".1"), l.open()); err != nil {
			return 0, err
		}
	}
	n, err = l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// Close implements io.Closer.
func (l *boundedLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
