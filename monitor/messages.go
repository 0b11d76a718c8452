package monitor

import (
	"fmt"
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

// nextLogs returns the next lines for people and failed rollouts for the sink.
func (f *Follower) nextLogs() (b Batch, then position, more bool, err error) {
	if !f.sink.Takes().Logs {
		return b, then, false, nil
	}
	then = f.tail.at
	var said []rundir.Message
	if said, then.Said, err = rundir.ReadMessages(f.run.Dir, then.Said, maxBytes); err != nil {
		return b, then, false, err
	}
	for _, line := range said {
		b.Logs = append(b.Logs, LogRecord{Time: line.Time, Text: line.Text})
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
