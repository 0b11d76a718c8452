package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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

// Logs is a Sink that also gets what the run says and which rollouts failed.
type Logs interface {
	Sink
	// TakesLogs reports whether the service takes logs. It may turn out that it takes none.
	TakesLogs() bool
	// SendLogs sends log records. After an error the service may have them; they then come again.
	SendLogs(ctx context.Context, logs []LogRecord) error
}

// LogRecord is a line for people, or a failed rollout.
type LogRecord struct {
	Time    time.Time
	Text    string
	Failure *trace.Failure // nil for a line
	Process int            // of the trace, which has the failure
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

// nextLogs returns the next log records for the sink, and the position behind them. more is false if
// there is nothing behind the sink's position.
func (f *Follower) nextLogs() (logs []LogRecord, then position, more bool, err error) {
	then = f.tail.at
	if logs, then.Said, err = readSaid(f.run.Dir, then.Said); err != nil {
		return nil, then, false, err
	}
	part, err := trace.NextFailures(f.run.traceDir(), then.Failed)
	moved := !maps.Equal(part.Then, then.Failed)
	if err != nil && moved {
		f.say("%v: the sink gets no more of this file", err)
		err = nil
	}
	for i := range part.Lines {
		failure := &part.Lines[i]
		text, _, _ := strings.Cut(failure.Reason, "\n")
		logs = append(logs, LogRecord{Time: failure.Time, Text: text, Failure: failure, Process: part.Process})
	}
	more = moved || then.Said > f.tail.at.Said
	then.Failed = part.Then
	return logs, then, more, err
}

// sendLogs sends the lines for people and the failed rollouts that the sink has not got.
func (f *Follower) sendLogs(ctx context.Context) error {
	sink, ok := f.sink.(Logs)
	for ok && sink.TakesLogs() {
		logs, then, more, err := f.nextLogs()
		if err != nil || !more {
			return err
		}
		if len(logs) > 0 {
			if err := sink.SendLogs(ctx, logs); err != nil {
				return err
			}
		}
		if !sink.TakesLogs() { // trinity sync may send them later
			return nil
		}
		if err := f.tail.keep(then); err != nil {
			return err
		}
	}
	return nil
}
