package buffer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
)

// position is that of an experience in a log.
type position struct {
	Record int64 `json:"record"`
	Index  int   `json:"index"` // within the record
}

// State implements trinity.Source. With a log it is where the next experience stands there, what was restored and not taken, and depends on nothing but what
// was taken; without one it is all that is pending.
func (q *Queue) State() (trinity.SourceState, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var state trinity.SourceState
	if q.log == nil {
		for _, p := range q.pending {
			state.Pending = append(state.Pending, p.Experience)
		}
		return state, nil
	}
	var err error
	state.Cursor, err = json.Marshal(q.next)
	state.Pending = q.loose()
	return state, err
}

// Restore implements trinity.Source: what is pending comes first, then what the log has from the cursor on. The zero state is the log's beginning.
func (q *Queue) Restore(s trinity.SourceState) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.window, q.behind, q.next, q.explorers = window{}, 0, position{}, map[string]*explorer{}
	if len(s.Cursor) > 0 {
		if err := readState(s.Cursor, &q.next); err != nil {
			return err
		}
	}
	q.holdLoose(s.Pending, q.next)
	if q.log != nil {
		if err := q.rewind(); err != nil {
			return fmt.Errorf("experience buffer: %w", err)
		}
	}
	q.signal()
	return nil
}

// Trim implements trinity.Buffer.
func (q *Queue) Trim(s trinity.SourceState) error {
	var at position
	if err := readState(s.Cursor, &at); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.trim(at.Record - 1) // the record before is the last of an explorer that has put nothing since
}

// rewind makes what follows the next position available.
func (q *Queue) rewind() error {
	at := q.next
	if end := q.log.Next(); at.Record > end || at.Record == end && at.Index > 0 {
		return fmt.Errorf("%s ends before record %d, which the checkpoint goes on from: was it removed?", q.log.Dir(), at.Record)
	}
	if err := q.count(at); err != nil {
		return err
	}
	q.later = durable.ReadLog(q.log.Dir(), at.Record)
	if at.Index == 0 {
		return nil
	}
	record, err := q.later.Next()
	if err != nil {
		return err
	}
	return q.load(record, at)
}

// count finds out how many rollouts follow, those of the record at a position all, and the cursors of the last deliveries.
func (q *Queue) count(at position) error {
	r := durable.ReadLog(q.log.Dir(), q.log.First())
	defer r.Close()
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d, err := readDelivery(record)
		if err != nil {
			return fmt.Errorf("%s, record %d: %w", q.log.Dir(), r.Number()-1, err)
		}
		q.arrived(d, r.Number()-1)
		if r.Number() > at.Record {
			q.behind += d.rollouts
		}
	}
}

// fetch reads what is in the log only until n of what Take counts are in memory, or all.
func (q *Queue) fetch(n int) error {
	for q.later != nil && q.window.held(q.ByRollout) < n {
		record, err := q.later.Next()
		if errors.Is(err, io.EOF) {
			err = q.later.Close()
			q.later, q.behind = nil, 0
			return err
		}
		if err != nil {
			return err
		}
		if err := q.load(record, position{Record: q.later.Number() - 1}); err != nil {
			return err
		}
	}
	return nil
}

// load takes the experiences of a record from a position on into memory.
func (q *Queue) load(record []byte, at position) error {
	d, err := readDelivery(record)
	if err != nil {
		return fmt.Errorf("%s, record %d: %w", q.log.Dir(), at.Record, err)
	}
	exps, err := d.experiences(at.Index, d.count)
	if err != nil {
		return fmt.Errorf("%s, record %d: %w", q.log.Dir(), at.Record, err)
	}
	q.holdAll(exps, d.needs, at)
	q.behind -= d.rollouts
	return nil
}
