package buffer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/trinity-go/trinity"
)

// position is the position of an experience in a log.
type position struct {
	Record int64 `json:"record"`
	Index  int   `json:"index"` // within the record
}

// State implements trinity.Source. With a log, the state is the position of the next experience,
// and the restored groups that nobody has taken; it depends on nothing but what was taken. Without
// a log it holds all groups.
func (q *Queue) State() (trinity.SourceState, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.log == nil {
		return trinity.SourceState{Pending: grouped(q.pending)}, nil
	}
	cursor, err := json.Marshal(q.next)
	return trinity.SourceState{Cursor: cursor, Pending: q.loose()}, err
}

// Restore implements trinity.Source: the pending groups come first, then the log from the cursor
// on. The zero state is the beginning of the log.
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
		if err := q.rewind(context.Background()); err != nil {
			return fmt.Errorf("experience buffer: %w", err)
		}
	}
	q.signal()
	return nil
}

// Trim implements trinity.Buffer.
func (q *Queue) Trim(ctx context.Context, s trinity.SourceState) error {
	var at position
	if err := readState(s.Cursor, &at); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.trim(ctx, at.Record-1); err != nil { // the record before may hold the cursor of an explorer
		return fmt.Errorf("experience buffer: %w", err)
	}
	return nil
}

// rewind makes the records from the next position on available, and recalls the explorers' cursors.
func (q *Queue) rewind(ctx context.Context) error {
	at := q.next
	if err := q.check(at.Record); err != nil {
		return err
	}
	q.unread = at.Record
	err := q.log.Heads(ctx, func(number int64, h Head) error {
		q.recall(number, h)
		if number >= at.Record {
			q.behind += h.Rollouts
		}
		return nil
	})
	if err != nil || at.Index == 0 {
		return err
	}
	if _, next := q.log.Bounds(); at.Record == next {
		return q.check(at.Record + 1)
	}
	return q.load(ctx, at)
}

// readState decodes the state of a buffer of this package. It returns an error for the state of
// another kind of buffer.
func readState(cursor json.RawMessage, state any) error {
	d := json.NewDecoder(bytes.NewReader(cursor))
	d.DisallowUnknownFields()
	if err := d.Decode(state); err != nil {
		return fmt.Errorf("state of the experience buffer: %w: was storage_type or replay_buffer.enable changed? they must stay the same", err)
	}
	return nil
}
