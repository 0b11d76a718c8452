package monitor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// Messages passes lines for people on, and keeps them in [rundir.MessagesFile] from Keep on.
type Messages struct {
	To func(line string)

	mu   sync.Mutex
	file *os.File // nil before Keep and after Close
}

// Say passes a line on.
func (s *Messages) Say(line string) {
	s.To(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil { // the run does not fail by a disk that is full
		_, _ = fmt.Fprintf(s.file, "%s %s\n", time.Now().UTC().Format(time.RFC3339Nano), strings.ReplaceAll(line, "\n", " "))
	}
}

// Keep begins to keep the lines in a monitor directory.
func (s *Messages) Keep(dir string) (err error) {
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file, err = os.OpenFile(filepath.Join(dir, rundir.MessagesFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return err
}

// Close closes the file. Lines still pass.
func (s *Messages) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// LogRecord is a line for people, or a failed rollout.
type LogRecord struct {
	Time    time.Time
	Text    string
	Failure *trace.Failure // nil for a line
}

// readSaid reads lines for people from an offset on, and returns where to go on. A line without a time
// has the time of the one before it.
func readSaid(dir string, from int64) (logs []LogRecord, end int64, err error) {
	file, err := os.Open(filepath.Join(dir, rundir.MessagesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, from, nil
	}
	if err != nil {
		return nil, from, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.NewSectionReader(file, from, maxBytes))
	if err != nil {
		return nil, from, err
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	if whole == 0 && len(data) == maxBytes {
		whole = len(data) // a line that is too long comes in pieces
	}
	at := time.Now()
	for line := range strings.Lines(string(data[:whole])) {
		line = strings.TrimSuffix(line, "\n")
		stamp, text, _ := strings.Cut(line, " ")
		if t, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
			at = t
		} else {
			text = line
		}
		logs = append(logs, LogRecord{Time: at, Text: text})
	}
	return logs, from + int64(whole), nil
}

// nextLogs returns the next lines for people and failed rollouts for the sink.
func (f *Follower) nextLogs() (b Batch, then position, more bool, err error) {
	if !f.sink.Takes().Logs {
		return b, then, false, nil
	}
	then = f.tail.at
	if b.Logs, then.Said, err = readSaid(f.run.Dir, then.Said); err != nil {
		return b, then, false, err
	}
	part, err := trace.NextFailures(f.run.traceDir(), then.Failed)
	if more, err = hasMore(part, then.Failed, err); err != nil && !more {
		return b, then, false, err
	}
	for i := range part.Lines {
		failure := &part.Lines[i]
		text, _, _ := strings.Cut(failure.Reason, "\n")
		b.Logs = append(b.Logs, LogRecord{Time: failure.Time, Text: text, Failure: failure})
	}
	b.Process, then.Failed = part.Process, part.Then
	return b, then, more || then.Said > f.tail.at.Said, err
}
