package monitor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// Limits of what a sink gets at once.
const (
	maxRecords = 200
	maxBytes   = 1 << 20
)

// tail reads from metrics.jsonl the records that a sink has not got yet. Its position is in a file.
type tail struct {
	path string // of metrics.jsonl
	kept string // path of the position
	at   position
}

// position says which records a sink has.
type position struct {
	To      string `json:"to,omitempty"` // target of the sink
	Records int64  `json:"records"`      // that the sink has got
	Offset  int64  `json:"offset"`       // of the first line that it has not got
	Length  int64  `json:"length"`       // of the line before it
	Hash    string `json:"hash"`         // of that line
	// Newest and Before hold the newest steps by series, sent and before the last cut.
	Newest map[string]int64 `json:"newest,omitempty"`
	Before map[string]int64 `json:"before,omitempty"`
	Spans  trace.Position   `json:"spans,omitempty"`  // of the trace, that the sink has got
	Failed trace.Position   `json:"failed,omitempty"` // of the failed rollouts in the trace
	Said   int64            `json:"said,omitempty"`   // of the lines for people, in bytes
	Tables int64            `json:"tables,omitempty"` // the newest train step of the trace that it has
	// TableCount is how many tables the sink has.
	TableCount int64  `json:"table_count,omitempty"`
	Status     Status `json:"status,omitempty"` // of the run; "" until it ends
	Told       bool   `json:"told,omitempty"`   // the sink knows the status
}

func openTail(dir, sink string) (*tail, error) {
	t := &tail{path: filepath.Join(dir, rundir.MetricsFile), kept: filepath.Join(dir, "sent_"+sink+".json")}
	text, err := os.ReadFile(t.kept)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &t.at)
	}
	if at := t.at; err == nil && (at.Records < 0 || at.Length < 0 || at.Offset < at.Length) {
		err = errors.New("it is no position")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; without this file the sink gets all records again", t.kept, err)
	}
	return t, nil
}

// next returns the next records, a limited number, and the position after them. A caller that has
// sent them keeps the position. Without records the sink has everything.
//
// A resumed run cuts the file back, and repeats steps that the sink may have. next sees that by the
// line before the position. It then reads from the beginning, and leaves out the steps of each
// series that the sink has.
func (t *tail) next() (records []trinity.Record, then position, err error) {
	f, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, t.at, nil
	}
	if err != nil {
		return nil, t.at, err
	}
	defer f.Close()
	then = t.at
	then.Newest = maps.Clone(t.at.Newest)
	if !t.at.matches(f) {
		then.Offset, then.Length, then.Before = 0, 0, then.Newest
	}
	if then.Newest == nil {
		then.Newest = map[string]int64{}
	}
	for len(records) == 0 { // a part may hold nothing new
		lines, err := wholeLines(f, then.Offset)
		if err != nil || len(lines) == 0 {
			return nil, then, err
		}
		for line := range bytes.Lines(lines) {
			then.Offset, then.Length, then.Hash = then.Offset+int64(len(line)), int64(len(line)), hash(line)
			r, err := rundir.Parse(line)
			if err != nil {
				continue // no record of this program, which other readers report
			}
			if name := series(r); then.isNew(name, r.Step) {
				then.Newest[name] = max(then.Newest[name], r.Step)
				records = append(records, r)
			}
			if len(records) == maxRecords {
				break
			}
		}
	}
	then.Records += int64(len(records))
	return records, then, nil
}

// isNew reports whether a step is none that a killed run has sent.
func (p *position) isNew(series string, step int64) bool {
	newest, ok := p.Before[series]
	return !ok || step > newest
}

// matches reports whether the file still has the line before the position.
func (p *position) matches(f *os.File) bool {
	if p.Offset == 0 {
		return true
	}
	line, err := io.ReadAll(io.NewSectionReader(f, p.Offset-p.Length, p.Length))
	return err == nil && hash(line) == p.Hash
}

// wholeLines returns complete lines from an offset on: as many as fit, or the first one.
func wholeLines(f *os.File, offset int64) ([]byte, error) {
	for size := int64(maxBytes); ; size *= 2 {
		data, err := io.ReadAll(io.NewSectionReader(f, offset, size))
		if err != nil {
			return nil, err
		}
		if end := bytes.LastIndexByte(data, '\n') + 1; end > 0 || int64(len(data)) < size {
			return data[:end], nil
		}
	}
}

// forget makes the next records the first ones of the run.
func (t *tail) forget() {
	at := &t.at
	at.Records, at.Offset, at.Length, at.Hash, at.Newest, at.Before = 0, 0, 0, "", nil, nil
}

// keep makes then the position.
func (t *tail) keep(then position) error {
	text, err := json.Marshal(then)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(t.kept, append(text, '\n')); err != nil {
		return err
	}
	t.at = then
	return nil
}

// series returns the name of the records among which steps only grow. Each evaluation is a series of
// its own, because an earlier step may be evaluated later.
func series(r trinity.Record) string {
	if !isEvaluation(r.Metrics) {
		return r.Role
	}
	names := strings.Join(slices.Sorted(maps.Keys(r.Metrics)), "\n")
	return fmt.Sprintf("%s %d %s", r.Role, r.Step, hash([]byte(names))[:8])
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
