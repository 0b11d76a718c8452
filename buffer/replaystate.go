package buffer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// replayState is the state of a Replay besides its log.
type replayState struct {
	Next    int64   `json:"next"` // the log's record after all groups below
	Rest    *place  `json:"rest,omitempty"`
	Waiting []place `json:"waiting,omitempty"`
	Cooling []place `json:"cooling,omitempty"`
}

// place is a group in the log: record, index of the first experience, index after the last, count
// (as Take counts), version, uses, and nanoseconds until it comes back.
type place [7]int64

func (it *item) place(cooldown time.Duration) place {
	return place{it.record, int64(it.from), int64(it.to), int64(it.size), it.version, int64(it.uses), int64(cooldown)}
}

func (p place) item() *item {
	return &item{record: p[0], from: int(p[1]), to: int(p[2]), size: int(p[3]), version: p[4], uses: int(p[5])}
}

// State implements trinity.Source. It names groups by their place in the log.
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
	return trinity.SourceState{Cursor: cursor, Pending: slices.Clone(r.first)}, err
}

// Restore implements trinity.Source. The pending groups come first, then those that the state
// names, then the rest of the log. The zero state is the beginning of the log.
func (r *Replay) Restore(from trinity.SourceState) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := readReplayState(from.Cursor)
	if err != nil {
		return err
	}
	r.coming, r.waiting, r.cooling, r.rest, r.bytes = nil, ranking{}, nil, nil, 0
	r.explorers, r.published, r.first, r.metrics = map[string]*explorer{}, 0, slices.Clone(from.Pending), replayMetrics{}
	if s.Rest != nil {
		r.rest = s.Rest.item()
	}
	r.rankAll(s.Waiting)
	now := time.Now()
	for _, p := range s.Cooling {
		r.cooling = append(r.cooling, cooling{p.item(), now.Add(time.Duration(p[6]))})
	}
	r.next = s.Next
	if err := r.readOn(context.Background()); err != nil {
		return fmt.Errorf("experience buffer: %w", err)
	}
	r.signal()
	return nil
}

// rankAll adds the groups at places to the waiting ones, up to the capacity.
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

// readOn reads the records after the state, and recalls the explorers' cursors.
func (r *Replay) readOn(ctx context.Context) error {
	if err := r.check(r.next); err != nil {
		return err
	}
	sizes := map[int64]int{} // experiences of the records to read
	err := r.log.Heads(ctx, func(number int64, h Head) error {
		if r.recall(number, h); number >= r.next {
			sizes[number] = h.Experiences
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, number := range slices.Sorted(maps.Keys(sizes)) {
		record, err := r.log.Read(ctx, number, 0, sizes[number])
		if err != nil {
			return err
		}
		items := r.items(number, slices.Concat(record.Groups...))
		for _, it := range items {
			r.hold(it)
		}
		r.coming = append(r.coming, arrival{number, record.Needs, items})
	}
	return nil
}

// load returns the experiences of a group.
func (r *Replay) load(ctx context.Context, it *item) ([]*trinity.Experience, error) {
	if it.exps != nil {
		return it.exps, nil
	}
	record, err := r.log.Read(ctx, it.record, it.from, it.to)
	if err != nil {
		return nil, err
	}
	exps := slices.Concat(record.Groups...)
	if len(exps) != it.to-it.from {
		return nil, fmt.Errorf("%s, record %d: %w", r.log, it.record, errRecord)
	}
	return exps, nil
}

// Trim implements trinity.Buffer.
func (r *Replay) Trim(ctx context.Context, state trinity.SourceState) error {
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
	if err := r.trim(ctx, oldest); err != nil {
		return fmt.Errorf("experience buffer: %w", err)
	}
	return nil
}

func readReplayState(cursor json.RawMessage) (s replayState, err error) {
	if len(cursor) > 0 {
		err = readState(cursor, &s)
	}
	return s, err
}
