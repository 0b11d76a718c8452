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
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/rundir"
)

var failJSONL = failpoint.New("monitor.jsonl.write")

const jsonlName = "jsonl"

func init() {
	Monitors.Register(jsonlName, "Appends every record to metrics.jsonl in the run's monitor directory, one JSON object per line.",
		func() trinity.Monitor { return &jsonl{} })
}

// jsonl appends records to metrics.jsonl, with sorted names:
//
//	{"step": 3, "role": "trainer", "time": "2006-01-02T15:04:05.123Z", "metrics": {...}, "samples": [...]}
//
// Values without a JSON number are the texts "NaN", "Infinity" and "-Infinity", which Python's
// float and JavaScript's Number read. In a resumed run, a role's first record replaces its records
// of the same and later steps. Each record is one write of a whole line. An explorer and a trainer
// in two processes may write the same file.
type jsonl struct {
	mu    sync.Mutex
	path  string
	file  *os.File
	lock  string // path of the lock file, which explorer and trainer share
	begun startedRoles
}

// Writes returns the file below the monitor directory and its contents, for trinity check.
func (*jsonl) Writes() (path, what string) { return rundir.MetricsFile, "metrics, one object per step" }

// Open implements [Opener]. It removes a last line that a killed process left incomplete.
func (j *jsonl) Open(run Run) error {
	if err := os.MkdirAll(run.Dir, 0o755); err != nil {
		return err
	}
	j.path = filepath.Join(run.Dir, rundir.MetricsFile)
	j.lock = filepath.Join(run.Dir, ".metrics.lock")
	release, err := durable.Acquire(context.Background(), j.lock)
	if err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	defer release()
	if err := cutPartialLine(j.path); err != nil {
		return err
	}
	return j.open()
}

func (j *jsonl) open() (err error) {
	j.file, err = os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	return err
}

// Log implements [trinity.Monitor].
func (j *jsonl) Log(ctx context.Context, r trinity.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	release, err := durable.Acquire(context.WithoutCancel(ctx), j.lock) // also log the last record of a stopped run
	if err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	defer release()
	if err := errors.Join(j.follow(), j.mend()); err != nil {
		return err
	}
	if err := j.replace(r); err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	line, err := rundir.Line(r)
	if err != nil {
		return err
	}
	_, err = failJSONL.Write(j.file, j.path, line)
	return err
}

// follow opens the file again if another process has replaced it.
func (j *jsonl) follow() error {
	mine, err := j.file.Stat()
	if err != nil {
		return err
	}
	if theirs, err := os.Stat(j.path); err == nil && os.SameFile(mine, theirs) {
		return nil
	}
	return errors.Join(j.file.Close(), j.open())
}

// mend removes a last line that another, killed process left incomplete.
func (j *jsonl) mend() error {
	size, err := j.file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	var last [1]byte
	if _, err := j.file.ReadAt(last[:], size-1); err != nil || last[0] == '\n' {
		return err
	}
	return cutPartialLine(j.path)
}

// Close implements [trinity.Monitor].
func (j *jsonl) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}

// replace removes the records that r replaces. Those of an evaluation alone are records of a killed
// run with the same step and the same metrics.
func (j *jsonl) replace(r trinity.Record) error {
	if isEvaluation(r.Metrics) {
		return j.cut(func(old trinity.Record) bool {
			return old.Role == r.Role && old.Step == r.Step && maps.EqualFunc(old.Metrics, r.Metrics, func(float64, float64) bool { return true })
		})
	}
	if !j.begun.first(r) {
		return nil
	}
	return j.cut(func(old trinity.Record) bool { return old.Role == r.Role && old.Step >= r.Step })
}

// cut removes the records for which gone returns true, and keeps all other lines as they are.
func (j *jsonl) cut(gone func(trinity.Record) bool) error {
	all, err := os.ReadFile(j.path)
	if err != nil {
		return err
	}
	var kept []byte
	for line := range bytes.Lines(all) {
		if old, err := rundir.Parse(line); err == nil && gone(old) {
			continue
		}
		kept = append(kept, line...)
	}
	if len(kept) == len(all) {
		return nil
	}
	if err := j.file.Close(); err != nil {
		return err
	}
	return errors.Join(durable.WriteFile(j.path, kept), j.open())
}

// cutPartialLine truncates a file after its last newline. The file need not exist.
func cutPartialLine(path string) error {
	all, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(all, '\n') + 1
	if whole == len(all) {
		return nil
	}
	return os.Truncate(path, int64(whole))
}
