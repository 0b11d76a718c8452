package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/selector"
)

// Source reads a dataset for offline training: the rows that a selector chooses, formatted, over a
// number of epochs.
type Source struct {
	recorded bool // the rows are experiences of an earlier run, with its tasks
	data     *Dataset
	sel      selector.Selector
	format   RowFormatter
	epochs   int

	taken   int64 // rows so far
	batches int64
	begun   partialRow
}

// partialRow is a row whose first experiences are in the last batch. Its others begin the next batch.
type partialRow struct {
	Row   int `json:"row"`
	Taken int `json:"taken"` // experiences; 0 for no such row
}

type cursor struct {
	Taken    int64           `json:"taken"`
	Batches  int64           `json:"batches"`
	Begun    partialRow      `json:"begun,omitzero"`
	Selector json.RawMessage `json:"selector"`
}

// NewSource returns a source of epochs passes over the data; epochs ≤ 0 means endless. The
// selector must be started. The experiences of a row come together, in order.
func NewSource(d *Dataset, sel selector.Selector, format RowFormatter, epochs int) *Source {
	return &Source{data: d, sel: sel, format: format, epochs: epochs}
}

// Total returns the number of experiences over all epochs, 0 for an endless source. It formats every
// row if their numbers vary; a row with an error, which Check names, has one.
func (s *Source) Total() int {
	all := s.data.Len() * s.format.PerRow
	if s.format.Varies && s.epochs > 0 {
		all = 0
		for i := range s.data.Len() {
			exps, err := s.row(i)
			if err != nil {
				exps = make([]*trinity.Experience, 1)
			}
			all += len(exps)
		}
	}
	return all * max(0, s.epochs)
}

// Take implements [trinity.Source]: it returns n experiences while there are as many left, then
// the remainder, then io.EOF. n must be whole rows, unless their numbers of experiences vary. The error of a row that cannot be formatted
// names its file and line. The published version does not matter.
func (s *Source) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	exps, err := s.take(ctx, want.N)
	if err != nil {
		return trinity.Taken{}, err
	}
	return trinity.Taken{Groups: s.groups(exps)}, nil
}

// groups returns the experiences of each task. Rows of an earlier run come in any order; they are
// grouped in order of first appearance. A batch may cut through a group.
func (s *Source) groups(exps []*trinity.Experience) (groups []trinity.Group) {
	if !s.recorded {
		for _, e := range exps {
			groups = trinity.JoinGroups(groups, trinity.Group{e})
		}
		return groups
	}
	place := map[string]int{}
	for _, e := range exps {
		i, known := place[e.ID.Task]
		if !known {
			i = len(groups)
			place[e.ID.Task] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], e)
	}
	return groups
}

func (s *Source) take(ctx context.Context, n int) ([]*trinity.Experience, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if n <= 0 || n%s.format.PerRow != 0 {
		return nil, fmt.Errorf("a batch of %d experiences was asked for, and a row of %s gives %d", n, s.data.Name(), s.format.PerRow)
	}
	var out []*trinity.Experience
	repeats := map[int]int{}
	for len(out) < n {
		rows, from, err := s.draw((n - len(out)) / s.format.PerRow)
		if err == io.EOF && len(out) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			exps, err := s.row(row)
			if err != nil {
				return nil, err
			}
			exps = exps[min(from, len(exps)):]
			if room := n - len(out); len(exps) > room {
				exps, s.begun = exps[:room], partialRow{row, from + room}
			}
			s.identify(exps, row, repeats)
			out = append(out, exps...)
		}
	}
	s.batches++
	return out, nil
}

// draw returns the next rows, at most n, or io.EOF after the last. Of the first row a batch before has
// taken the experiences until from. Where the numbers of experiences vary, it draws one row.
func (s *Source) draw(n int) (rows []int, from int, err error) {
	if s.begun.Taken > 0 {
		rows, from, s.begun = []int{s.begun.Row}, s.begun.Taken, partialRow{}
		return rows, from, nil
	}
	if s.format.Varies {
		n = 1
	}
	if s.epochs > 0 {
		left := int64(s.data.Len())*int64(s.epochs) - s.taken
		if left <= 0 {
			return nil, 0, io.EOF
		}
		n = int(min(int64(n), left))
	}
	rows, err = s.sel.Next(n)
	s.taken += int64(len(rows))
	return rows, 0, err
}

// identify names the experiences of a row. ID.Run distinguishes the experiences of one row, and those
// of a row that occurs twice, such as at the border of epochs. Experiences of an earlier run keep their
// ID.Run, so that groups stay groups: their task gets the step as prefix and the count of earlier
// occurrences as suffix.
func (s *Source) identify(exps []*trinity.Experience, row int, repeats map[int]int) {
	step := s.batches + 1
	for _, e := range exps {
		if e.ID.Task == "" {
			e.ID = trinity.ExperienceID{Step: step, Task: fmt.Sprintf("%s/%d", s.data.Name(), row), Run: repeats[row]}
			repeats[row]++
			continue
		}
		e.ID.Task = fmt.Sprintf("%d/%s", e.ID.Step, e.ID.Task)
		if n := repeats[row]; n > 0 {
			e.ID.Task = fmt.Sprintf("%s~%d", e.ID.Task, n)
		}
		e.ID.Step, s.recorded = step, true
		repeats[row]++
	}
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
	c, err := json.Marshal(cursor{Taken: s.taken, Batches: s.batches, Begun: s.begun, Selector: sel})
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
	if c.Begun.Taken < 0 || c.Begun.Row < 0 || c.Begun.Row >= max(1, s.data.Len()) {
		return fmt.Errorf("dataset source: state: row %d with %d experiences taken, which cannot be", c.Begun.Row, c.Begun.Taken)
	}
	if err := s.sel.Restore(c.Selector); err != nil {
		return err
	}
	s.taken, s.batches, s.begun = c.Taken, c.Batches, c.Begun
	return nil
}
