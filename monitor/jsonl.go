package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
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
	begun begun
}

// Writes returns the file below the monitor directory and its contents, for trinity check.
func (*jsonl) Writes() (path, what string) { return rundir.Metrics, "metrics, one object per step" }

// ReadFile reads the records of a metrics.jsonl. It leaves out a last line that a running or killed
// process has not completed.
func ReadFile(path string) ([]trinity.Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []trinity.Record
	n := 0
	for line := range bytes.Lines(data) {
		if n++; !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		rec, err := Parse(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: not a record of the jsonl monitor: %w", path, n, err)
		}
		out = append(out, rec)
	}
	return out, nil
}

// Parse returns the record of a line of [rundir.Metrics].
func Parse(line []byte) (rec trinity.Record, err error) {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return rec, err
	}
	rec = trinity.Record{Step: r.Step, Role: r.Role, Metrics: trinity.Metrics{}, Samples: r.Samples}
	if r.Time != "" {
		if rec.Time, err = time.Parse(time.RFC3339, r.Time); err != nil {
			return rec, err
		}
	}
	for name, v := range r.Metrics {
		rec.Metrics[name] = float64(v)
	}
	return rec, nil
}

type record struct {
	Step    int64            `json:"step"`
	Role    string           `json:"role"`
	Time    string           `json:"time"`
	Metrics map[string]value `json:"metrics"`
	Samples []trinity.Sample `json:"samples,omitempty"`
}

// value is a number as JSON.
type value float64

func valuesOf(m trinity.Metrics) map[string]value {
	values := make(map[string]value, len(m))
	for name, v := range m {
		values[name] = value(v)
	}
	return values
}

// MarshalJSON implements [json.Marshaler].
func (v value) MarshalJSON() ([]byte, error) {
	if word := experience.NotFinite(float64(v)); word != "" {
		return []byte(`"` + word + `"`), nil
	}
	return json.Marshal(float64(v))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (v *value) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	*v = value(f)
	return err
}

// Open implements [Opener]. It removes a last line that a killed process left incomplete.
func (j *jsonl) Open(run Run) error {
	if err := os.MkdirAll(run.Dir, 0o755); err != nil {
		return err
	}
	j.path = filepath.Join(run.Dir, rundir.Metrics)
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
	rec := record{
		Step: r.Step, Role: r.Role, Time: r.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		Metrics: valuesOf(r.Metrics), Samples: r.Samples,
	}
	line, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	_, err = failJSONL.Write(j.file, j.path, append(line, '\n'))
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
		return j.cut(func(old record) bool {
			return old.Role == r.Role && old.Step == r.Step && maps.EqualFunc(old.Metrics, r.Metrics, func(value, float64) bool { return true })
		})
	}
	if !j.begun.first(r) {
		return nil
	}
	return j.cut(func(old record) bool { return old.Role == r.Role && old.Step >= r.Step })
}

// cut removes the records for which gone returns true, and keeps all other lines as they are.
func (j *jsonl) cut(gone func(record) bool) error {
	all, err := os.ReadFile(j.path)
	if err != nil {
		return err
	}
	var kept []byte
	for line := range bytes.Lines(all) {
		var old record
		if json.Unmarshal(line, &old) == nil && gone(old) {
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
