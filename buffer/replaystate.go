package buffer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
)

// replayState is what there is besides the log.
type replayState struct {
	Next    int64   `json:"next"` // record of the log that comes after all groups that are named here
	Rest    *place  `json:"rest,omitempty"`
	Waiting []place `json:"waiting,omitempty"`
	Cooling []place `json:"cooling,omitempty"`
}

// place is a group in the log: record, first experience in it and the one after the last, how many of what Take counts, version, uses, and nanoseconds until
// it comes back.
type place [7]int64

func (it *item) place(cooldown time.Duration) place {
	return place{it.record, int64(it.from), int64(it.to), int64(it.size), it.version, int64(it.uses), int64(cooldown)}
}

func (p place) item() *item {
	return &item{record: p[0], from: int(p[1]), to: int(p[2]), size: int(p[3]), version: p[4], uses: int(p[5])}
}

// State implements trinity.Source. It names groups by where they stand in the log.
func (r *Replay) State() (trinity.SourceState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := replayState{Next: r.next}
	if r.rest != nil {
		p := r.rest.place(0)
		s.Rest = &p
	}
	for _, it := range r.waiting.items {
		s.Waiting = append(s.Waiting, it.place(0))
	}
	now := time.Now()
	for _, c := range r.cooling {
		s.Cooling = append(s.Cooling, c.place(max(0, c.due.Sub(now))))
	}
	cursor, err := json.Marshal(s)
	return trinity.SourceState{Cursor: cursor, Pending: r.first}, err
}

// Restore implements trinity.Source. What is pending comes first, then what the state names and the log has after it. The zero state is the log's
// beginning.
func (r *Replay) Restore(from trinity.SourceState) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := readReplayState(from.Cursor)
	if err != nil {
		return err
	}
	r.coming, r.waiting, r.cooling, r.rest, r.bytes = nil, ranking{}, nil, nil, 0
	r.explorers, r.published, r.first, r.metrics = map[string]*explorer{}, 0, from.Pending, replayMetrics{}
	if s.Rest != nil {
		r.rest = s.Rest.item()
	}
	r.rankAll(s.Waiting)
	now := time.Now()
	for _, p := range s.Cooling {
		r.cooling = append(r.cooling, cooling{p.item(), now.Add(time.Duration(p[6]))})
	}
	r.next = s.Next
	if err := r.readOn(); err != nil {
		return fmt.Errorf("experience buffer: %w", err)
	}
	r.signal()
	return nil
}

// rankAll lets groups wait, as many as there is room for.
func (r *Replay) rankAll(places []place) {
	for _, p := range places {
		it := p.item()
		var keep bool
		if it.priority, keep = r.rank(it); keep {
			r.waiting.items = append(r.waiting.items, it)
			r.waiting.size += it.size
		}
	}
	slices.SortFunc(r.waiting.items, byPriority)
	for len(r.waiting.items) > r.Capacity {
		r.waiting.remove(0)
	}
}

// readOn finds out what the log has after the state, and the cursors of the last deliveries.
func (r *Replay) readOn() error {
	first, end := r.log.First(), r.log.Next()
	if r.next > end || r.next < first {
		return fmt.Errorf("%s has the records %d to %d, and the checkpoint goes on from record %d: was it removed?", r.log.Dir(), first, end-1, r.next)
	}
	log := durable.ReadLog(r.log.Dir(), first)
	defer log.Close()
	for {
		record, err := log.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.arrive(record, log.Number()-1); err != nil {
			return fmt.Errorf("%s, record %d: %w", r.log.Dir(), log.Number()-1, err)
		}
	}
}

func (r *Replay) arrive(record []byte, number int64) error {
	d, err := readDelivery(record)
	if err != nil {
		return err
	}
	r.arrived(d, number)
	if number < r.next {
		return nil
	}
	exps, err := d.experiences(0, d.count)
	if err != nil {
		return err
	}
	items := r.items(number, exps)
	for _, it := range items {
		r.hold(it)
	}
	r.coming = append(r.coming, arrival{number, d.needs, items})
	return nil
}

// load returns the experiences of a group.
func (r *Replay) load(it *item) ([]*trinity.Experience, error) {
	if it.exps != nil {
		return it.exps, nil
	}
	record, err := r.index.Read(it.record)
	if err != nil {
		return nil, err
	}
	d, err := readDelivery(record)
	if err == nil && it.to > d.count {
		err = errRecord
	}
	var exps []*trinity.Experience
	if err == nil {
		exps, err = d.experiences(it.from, it.to)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, record %d: %w", r.log.Dir(), it.record, err)
	}
	return exps, nil
}

// Trim implements trinity.Buffer.
func (r *Replay) Trim(state trinity.SourceState) error {
	s, err := readReplayState(state.Cursor)
	if err != nil {
		return err
	}
	oldest := s.Next - 1
	if s.Rest != nil {
		oldest = min(oldest, s.Rest[0])
	}
	for _, p := range slices.Concat(s.Waiting, s.Cooling) {
		oldest = min(oldest, p[0])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.index.Close(); err != nil { // not every system removes a file that is open
		return err
	}
	return r.trim(oldest)
}

func readReplayState(cursor json.RawMessage) (s replayState, err error) {
	if len(cursor) > 0 {
		err = readState(cursor, &s)
	}
	return s, err
}

// readState decodes the state of a buffer of this package. That of another kind is an error.
func readState(cursor json.RawMessage, state any) error {
	d := json.NewDecoder(bytes.NewReader(cursor))
	d.DisallowUnknownFields()
	if err := d.Decode(state); err != nil {
		return fmt.Errorf("state of the experience buffer: %w: was storage_type or replay_buffer.enable changed? they must stay what they were", err)
	}
	return nil
}
