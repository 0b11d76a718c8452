package cluster

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/trinity-go/trinity/internal/process"
)

// programOutput is what a program has written: its ends, and the reason that it gives for its end. Servers write
// pages at their start and more below an exception, so neither end of the text has the reason.
type programOutput struct {
	process.Ends

	mu      sync.Mutex
	part    []byte // of a line that has not ended
	tracing bool   // a Python traceback has begun, and its exception comes
	open    bool   // the last line was the reason, which the next lines may explain
	reason  string
	since   int    // lines after it
	last    string // line that is not empty
	ranks   bool   // torchrun has said which rank failed, which its caller reads
	size    int    // bytes
}

const (
	longestLine   = 2000
	longestReason = 500
	mostSince     = 100  // more lines after a reason mean that the program went on in spite of it
	longestLast   = 160  // characters
	longText      = 1000 // bytes, of which the end alone is quoted
)

// Write implements io.Writer.
func (s *programOutput) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size += len(p)
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		s.part = append(s.part, line[:min(len(line), max(0, longestLine-len(s.part)))]...)
		if rest = after; ended {
			s.line(string(s.part))
			s.part = s.part[:0]
		}
	}
	return s.Ends.Write(p)
}

var (
	escapes   = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	logPrefix = regexp.MustCompile(`^(?:\([^)]*pid=\d+\) ?)?(?:(?:ERROR|CRITICAL|WARNING|INFO) [-\d]+ [:.\d]+ (?:\[[^\]]*\] ?)+)?`)
	exception = regexp.MustCompile(`^[A-Za-z_][\w.]*(?:: .*)?$`)
	elsewhere = regexp.MustCompile(`(?i)\babove\b|initialization failed|died during initialization|ChildFailedError`)
	complaint = regexp.MustCompile(`^(?:Fatal Python error|what\(\)|\S+: error): +\S`)
)

// line looks for the reason in a line. Of several exceptions the last one counts that does not point at an
// earlier one. The lock is held.
func (s *programOutput) line(text string) {
	text = escapes.ReplaceAllString(strings.TrimRight(text, " \r\t"), "")
	text = text[len(logPrefix.FindString(text)):]
	if strings.TrimSpace(text) != "" {
		s.last = text
	}
	if s.since++; s.since > mostSince {
		s.reason = ""
	}
	s.ranks = s.ranks || strings.Contains(text, "Root Cause (first observed failure)")
	indented := strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t")
	explains := s.open && indented && len(s.reason) < longestReason
	switch s.open = false; {
	case strings.HasSuffix(text, "Traceback (most recent call last):"):
		s.tracing = true
	case explains:
		s.reason, s.open = s.reason+" "+strings.TrimSpace(text), true
	case s.tracing && !indented && exception.MatchString(text):
		s.tracing = false
		if s.reason == "" || !elsewhere.MatchString(text) {
			s.reason, s.open, s.since = text, true, 0
		}
	case complaint.MatchString(strings.TrimSpace(text)):
		s.reason, s.since = strings.TrimSpace(text), 0
	}
}

// why returns the reason, "" if the program has given none.
func (s *programOutput) why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ranks {
		return ""
	}
	return s.reason[:min(len(s.reason), longestReason)]
}

// lastLine returns the last line, "" if there is none.
func (s *programOutput) lastLine() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.TrimSpace(string(s.part))
	if text == "" {
		text = strings.TrimSpace(s.last)
	}
	if short := []rune(text); len(short) > longestLast {
		text = string(short[:longestLast]) + " …"
	}
	return text
}

// ending quotes what a program has written that has ended with a status: of one that was told to end, or was
// killed, no earlier trouble.
func (s *programOutput) ending(status int) string {
	if status == -int(syscall.SIGKILL) || status == -int(syscall.SIGTERM) {
		s.mu.Lock()
		s.reason = ""
		s.mu.Unlock()
	}
	return s.quoted()
}

// quoted quotes the reason, or else a short text, or the last line of a long one.
func (s *programOutput) quoted() string {
	why := s.why()
	if why == "" && s.isLong() {
		why = s.lastLine()
	}
	if why != "" {
		return saying + strings.ToValidUTF8(why, "")
	}
	if text := s.Ends.String(); text != "" {
		return saying + text
	}
	return ""
}

// isLong reports whether the text has a beginning that no error should quote.
func (s *programOutput) isLong() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size > longText && !s.ranks
}
