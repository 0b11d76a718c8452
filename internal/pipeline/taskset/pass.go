package taskset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/dataset"
)

// blockRows is the number of rows that an operator gets at once: enough to keep a model busy, few
// enough to hold in memory.
const blockRows = 256

// statsField is Data-Juicer's field for the statistics of a row.
const statsField = "__dj__stats__"

// operator is a trinity.TaskOperator with its name.
type operator struct {
	name string
	trinity.TaskOperator
}

// Report describes what the pipeline did.
type Report struct {
	Output  string   `json:"-"`
	Read    int      `json:"read"` // rows
	Rows    int      `json:"rows"` // rows that are left
	Dropped []Loss   `json:"dropped"`
	Idle    []string `json:"idle,omitempty"` // weights of the priority without effect, because no row has the score that they weigh
	Reused  bool     `json:"-"`              // the output of an earlier run was up to date
}

// Loss is the number of rows that a part of the pipeline dropped; negative if it added rows.
type Loss struct {
	By   string `json:"by"`
	Rows int    `json:"rows"`
}

func (r *Report) String() string {
	text := fmt.Sprintf("task pipeline: %d of %d rows in %s: %s", r.Rows, r.Read, r.Output, r.losses())
	if r.Reused {
		text = fmt.Sprintf("task pipeline: %s was made before with these settings and inputs: %d of %d rows", r.Output, r.Rows, r.Read)
	}
	if len(r.Idle) > 0 {
		text += fmt.Sprintf("; no row has a score of %s, so these priority_weights change nothing: add an operator that "+
			"measures it", strings.Join(r.Idle, ", "))
	}
	return text
}

// losses lists how many rows each part dropped or added.
func (r *Report) losses() string {
	words := []string{fmt.Sprintf("%d read", r.Read)}
	for _, l := range r.Dropped {
		switch {
		case l.Rows > 0:
			words = append(words, fmt.Sprintf("%s dropped %d", l.By, l.Rows))
		case l.Rows < 0: // an operator split rows
			words = append(words, fmt.Sprintf("%s added %d", l.By, -l.Rows))
		}
	}
	return strings.Join(words, ", ")
}

// pass passes the rows of next through the operators, block by block, and the remaining rows to
// sink. next returns io.EOF after the last row.
func (r *Report) pass(ctx context.Context, next func() (*trinity.TaskRow, error), ops []operator, sink func(*trinity.TaskRow) error) error {
	at := len(r.Dropped)
	for _, op := range ops {
		r.Dropped = append(r.Dropped, Loss{By: op.name})
	}
	for ended := false; !ended; {
		var rows []*trinity.TaskRow
		for len(rows) < blockRows && !ended {
			row, err := next()
			if ended = errors.Is(err, io.EOF); err != nil && !ended {
				return err
			}
			if !ended {
				rows = append(rows, row)
			}
		}
		for i, op := range ops {
			kept, err := op.Process(ctx, rows)
			if err != nil {
				return fmt.Errorf("%s: %w", op.name, err)
			}
			r.Dropped[at+i].Rows += len(rows) - len(kept)
			rows = kept
		}
		for _, row := range rows {
			if err := sink(row); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	for _, op := range ops {
		if f, ok := op.TaskOperator.(finisher); ok {
			f.Finish()
		}
	}
	return nil
}

// reader reads the rows of several datasets one after the other.
type reader struct {
	paths    []string
	open     func(path string) (*dataset.Dataset, error)
	progress func(done, total int64)

	sets  []*dataset.Dataset
	total int64
	read  int64
	set   int // index into sets
	row   int // index into the set
}

// place names the file and line of a row. Finding the line means reading the file, so place does it
// only when it is printed.
type place struct {
	data *dataset.Dataset
	row  int
}

func (p place) String() string { return p.data.Where(p.row) }

func (r *reader) next() (*trinity.TaskRow, error) {
	if r.sets == nil {
		for _, p := range r.paths {
			d, err := r.open(p)
			if err != nil {
				return nil, err
			}
			r.sets, r.total = append(r.sets, d), r.total+int64(d.Len())
		}
	}
	for r.set < len(r.sets) && r.row == r.sets[r.set].Len() {
		r.set, r.row = r.set+1, 0
	}
	if r.set == len(r.sets) {
		return nil, io.EOF
	}
	d := r.sets[r.set]
	row, err := d.Row(r.row)
	if err != nil {
		return nil, err
	}
	out := &trinity.TaskRow{Row: row, Stats: map[string]any{}, Where: place{d, r.row}}
	if stats, ok := row[statsField].(map[string]any); ok {
		out.Stats = stats
	}
	r.row++
	if r.read++; r.progress != nil {
		r.progress(r.read, r.total)
	}
	return out, nil
}

// encode returns a row with its statistics as one line of JSON, without the fields that the
// pipeline itself adds.
func encode(row *trinity.TaskRow) ([]byte, error) {
	fields := make(map[string]any, len(row.Row)+1)
	for k, v := range row.Row {
		if !written[k] {
			fields[k] = v
		}
	}
	fields[statsField] = row.Stats
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		return nil, fmt.Errorf("%s: %w", row.Where, err)
	}
	return bytes.TrimSuffix(line.Bytes(), []byte("\n")), nil
}
