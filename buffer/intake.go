package buffer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
)

// Reading is how a trainer takes from a buffer.
type Reading struct {
	// ByRollout makes Take count rollouts, of which it cuts none, in place of experiences.
	ByRollout bool
	// TakeTimeout is how long the trainer waits for a batch; 0 is as long as it takes.
	TakeTimeout time.Duration
}

// Count implements trinity.CountingSource.
func (r *Reading) Count(exps []*trinity.Experience) int {
	if r.ByRollout {
		return rollouts(exps)
	}
	return len(exps)
}

func (r *Reading) unit() string {
	if r.ByRollout {
		return "rollouts"
	}
	return "experiences"
}

// awaitBatch blocks until a batch of n is ready, as gate.await does.
func (r *Reading) awaitBatch(ctx context.Context, g *gate, n int, held func() string, ready func() bool) error {
	ctx, cancel := withTimeout(ctx, r.TakeTimeout, "buffer.trainer_input.experience_buffer.max_read_timeout")
	defer cancel()
	return g.await(ctx, fmt.Sprintf("the explorer to put %d %s into the experience buffer", n, r.unit()), held, ready)
}

// intake is a buffer as explorers see it.
type intake struct {
	gate
	log       *durable.Log // nil keeps none
	explorers map[string]*explorer
	closed    bool
	record    []byte // room for the next
}

// explorer is what a buffer knows of one.
type explorer struct {
	cursor json.RawMessage // of its last delivery
	record int64           // which that is, of the log
	paused int64           // version that it waits for
	closed bool
}

func newIntake(log *durable.Log) intake {
	return intake{log: log, explorers: map[string]*explorer{}}
}

func (in *intake) explorer(name string) *explorer {
	if in.explorers[name] == nil {
		in.explorers[name] = &explorer{}
	}
	return in.explorers[name]
}

// barred says that nobody puts anything before a version after published.
func (in *intake) barred(published int64) bool {
	return in.all(func(e *explorer) bool { return e.closed || e.paused > published })
}

// ended says that nobody puts anything any more.
func (in *intake) ended() bool {
	return in.closed || in.all(func(e *explorer) bool { return e.closed })
}

func (in *intake) all(holds func(*explorer) bool) bool {
	for _, e := range in.explorers {
		if !holds(e) {
			return false
		}
	}
	return len(in.explorers) > 0
}

// write makes an explorer's delivery a record of the log, and says which.
func (in *intake) write(name string, d trinity.Delivery) (int64, error) {
	e := in.explorer(name)
	if in.log != nil {
		var err error
		if in.record, err = appendDelivery(in.record[:0], name, d); err != nil {
			return 0, err
		}
		if e.record, err = in.log.Append(in.record); err != nil {
			return 0, err
		}
	}
	e.cursor = d.Cursor
	return e.record, nil
}

// trim removes from the log what is before a record, but for the last delivery of each explorer: its cursor is written again.
func (in *intake) trim(oldest int64) error {
	for name, e := range in.explorers {
		if e.record >= oldest || e.cursor == nil {
			continue
		}
		if _, err := in.write(name, trinity.Delivery{Cursor: e.cursor}); err != nil {
			return err
		}
	}
	return in.log.Trim(oldest)
}

// arrived takes note of a record that was read.
func (in *intake) arrived(d delivered, record int64) {
	e := in.explorer(d.explorer)
	e.cursor, e.record = d.cursor, record
}

// sink is an explorer's side.
type sink struct {
	*intake
	name string
	put  func(ctx context.Context, explorer string, d trinity.Delivery) error
}

// Resume implements trinity.Sink.
func (s *sink) Resume(context.Context) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.explorer(s.name)
	e.paused, e.closed = 0, false
	return e.cursor, nil
}

// Put implements trinity.Sink.
func (s *sink) Put(ctx context.Context, d trinity.Delivery) error {
	if err := s.put(ctx, s.name, d); err != nil {
		return fmt.Errorf("experience buffer: %w", err)
	}
	return nil
}

// Pause implements trinity.Sink.
func (s *sink) Pause(_ context.Context, until int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.explorer(s.name).paused = until
	s.signal()
	return nil
}

// Close implements trinity.Sink.
func (s *sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.explorer(s.name).closed = true
	s.signal()
	return nil
}

// Close implements trinity.Buffer.
func (in *intake) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.signal()
	return nil
}
