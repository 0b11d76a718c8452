package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/safetext"
)

// scrub replaces the secrets that a run knows by stars in what programs and services of others say: a
// service that refuses a request may repeat its headers, and a program its environment.
type scrub func(text string) string

// minSecret is the least length of a secret that scrub looks for, in bytes: a shorter one may be a part of
// any word.
const minSecret = 8

// secretName matches the names of environment variables, headers and keys that hold secrets.
var secretName = regexp.MustCompile(`(?i)(TOKEN|[_-]KEY|APIKEY|SECRET|PASSWORD|PASSWD|AUTHORIZATION|COOKIE)$`)

// isLikeToken reports whether a value has letters and digits and is no path: env has many values that are
// no secrets, such as folders, and which lines for people need.
func isLikeToken(value string) bool {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' }
	return !strings.ContainsAny(value, "/\\ ,") && strings.ContainsFunc(value, isDigit) && strings.ContainsFunc(value, unicode.IsLetter)
}

// ScrubOf returns the scrub of a configuration: it knows the configuration's secrets, and those of the
// environment.
func ScrubOf(cfg *config.Config) scrub {
	var secrets []string
	cfg.Secrets(func(key, value string) {
		if secretName.MatchString(key) || isLikeToken(value) {
			secrets = append(secrets, value)
			secrets = append(secrets, strings.Fields(value)...) // Bearer …
		}
	})
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); secretName.MatchString(name) {
			secrets = append(secrets, value)
		}
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) // the longest wins
	var pairs []string
	for _, s := range slices.Compact(secrets) {
		pairs = append(pairs, s, "***")
	}
	known := strings.NewReplacer(pairs...)
	return func(text string) string { return safetext.Hidden(known.Replace(text)) }
}

// lines passes lines on to say.
func (s scrub) lines(say func(string)) func(string) { return func(line string) { say(s(line)) } }

// scrubbedError is an error whose text is scrubbed.
type scrubbedError struct {
	error
	text string
}

func (e *scrubbedError) Error() string { return e.text }
func (e *scrubbedError) Unwrap() error { return e.error }

// Err returns an error with a scrubbed text.
func (s scrub) Err(err error) error {
	if err == nil {
		return nil
	}
	if text := s(err.Error()); text != err.Error() {
		return &scrubbedError{err, text}
	}
	return err
}

// Writer passes texts on to a writer.
func (s scrub) Writer(to io.Writer) io.Writer { return scrubbedWriter{to, s} }

// scrubbedWriter writes scrubbed texts. A secret that comes in two writes passes.
type scrubbedWriter struct {
	to io.Writer
	scrub
}

// Write implements io.Writer.
func (w scrubbedWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, w.scrub(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WithAdvice adds to the error of a disk what users can do about it. They need not repair anything
// in the run's directory.
func WithAdvice(err error) error {
	const again = "and start the same command again: it resumes from the last checkpoint"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; make room %s", err, again)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; let this user write there %s", err, again)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("%w; the disk is broken or disconnected: repair it, or move the directory to another disk, %s", err, again)
	}
	return err
}

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
