package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/trinity-go/trinity"
)

// Source reads a dataset for offline training: the rows that a selector chooses, formatted, over a number of epochs.
type Source struct {
	data   *Dataset
	sel    trinity.Selector
	format RowFormatter
	epochs int

	taken   int64 // rows so far
	batches int64
}

type cursor struct {
	Taken    int64           `json:"taken"`
	Batches  int64           `json:"batches"`
	Selector json.RawMessage `json:"selector"`
}

// NewSource makes a source of as many rows as epochs passes over the data have; epochs ≤ 0 means without end. The selector must be started.
// The experiences of a row come together, in order.
func NewSource(d *Dataset, sel trinity.Selector, format RowFormatter, epochs int) *Source {
	return &Source{data: d, sel: sel, format: format, epochs: epochs}
}

// Total is the number of experiences over all epochs, 0 for a source without end.
func (s *Source) Total() int { return s.data.Len() * s.format.PerRow * max(0, s.epochs) }

// Take implements [trinity.Source]: it gives n experiences while there are as many left, then the remainder, then io.EOF. n must be whole rows.
// A row that cannot be formatted is an error that names its file and line. The published version does not matter.
func (s *Source) Take(ctx context.Context, n int, _ int64) ([]*trinity.Experience, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if n <= 0 || n%s.format.PerRow != 0 {
		return nil, fmt.Errorf("a batch of %d experiences was asked for, and a row of %s gives %d", n, s.data.Name(), s.format.PerRow)
	}
	n /= s.format.PerRow
	if s.epochs > 0 {
		left := int64(s.data.Len())*int64(s.epochs) - s.taken
		if left <= 0 {
			return nil, io.EOF
		}
		n = int(min(int64(n), left))
	}
	rows, err := s.sel.Next(n)
	if err != nil {
		return nil, err
	}
	s.taken += int64(n)
	s.batches++
	return s.experiences(rows)
}

// experiences formats the rows of a batch. Those of one row, and of a row that comes again, as at the border of epochs, are told apart by
// ID.Run. Experiences of an earlier run keep theirs, so that groups stay groups: their task has its step before it then, and behind it how often the row
// has come before.
func (s *Source) experiences(rows []int) ([]*trinity.Experience, error) {
	repeats := map[int]int{}
	var out []*trinity.Experience
	for _, row := range rows {
		exps, err := s.row(row)
		if err != nil {
			return nil, err
		}
		for _, e := range exps {
			if e.ID.Task != "" {
				e.ID.Task = fmt.Sprintf("%d/%s", e.ID.Step, e.ID.Task)
				if n := repeats[row]; n > 0 {
					e.ID.Task = fmt.Sprintf("%s~%d", e.ID.Task, n)
				}
				e.ID.Step = s.batches
				repeats[row]++
				continue
			}
			e.ID = trinity.ExperienceID{Step: s.batches, Task: fmt.Sprintf("%s/%d", s.data.Name(), row), Run: repeats[row]}
			repeats[row]++
		}
		out = append(out, exps...)
	}
	return out, nil
}

// row formats one row.
func (s *Source) row(i int) ([]*trinity.Experience, error) {
	fields, err := s.data.Row(i)
	if err != nil {
		return nil, err
	}
	exps, err := s.format.Format(fields)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.data.Where(i), err)
	}
	return exps, nil
}

// State implements [trinity.Source].
func (s *Source) State() (trinity.SourceState, error) {
	sel, err := s.sel.State()
	if err != nil {
		return trinity.SourceState{}, err
	}
	c, err := json.Marshal(cursor{Taken: s.taken, Batches: s.batches, Selector: sel})
	return trinity.SourceState{Cursor: c}, err
}

// Restore implements [trinity.Source].
func (s *Source) Restore(state trinity.SourceState) error {
	if len(state.Pending) > 0 {
		return errors.New("dataset source: the state holds pending experiences: it is that of an experience buffer, from a run of another mode")
	}
	var c cursor
	if err := json.Unmarshal(state.Cursor, &c); err != nil {
		return fmt.Errorf("dataset source: state: %w", err)
	}
	if c.Taken < 0 {
		return fmt.Errorf("dataset source: state: %d rows taken, which cannot be", c.Taken)
	}
	if err := s.sel.Restore(c.Selector); err != nil {
		return err
	}
	s.taken, s.batches = c.Taken, c.Batches
	return nil
}
