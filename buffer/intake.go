package buffer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
)

// awaitBatch blocks until a batch is ready, as gate.await does, for timeout at most; 0 means no
// limit.
func (in *intake) awaitBatch(
	ctx context.Context, timeout time.Duration, want trinity.Want, held func() string, ready func() bool,
) error {
	ctx, cancel := withTimeout(ctx, timeout, "buffer.trainer_input.experience_buffer.max_read_timeout")
	defer cancel()
	what := fmt.Sprintf("the explorer to put %d %s into the experience buffer", want.N, unit(want.Rollouts))
	return in.await(ctx, what, held, ready)
}

// unit returns the word for what a trainer counts.
func unit(rollouts bool) string {
	if rollouts {
		return "rollouts"
	}
	return "experiences"
}

// intake is the explorers' side of a buffer. It numbers the deliveries of each explorer and writes
// them to the log. Exactly-once delivery is implemented here and nowhere else.
type intake struct {
	gate
	log       Log // may be nil
	explorers map[string]*explorer
	closed    bool
}

// explorer is what a buffer knows of one explorer.
type explorer struct {
	delivered int64           // number of its last delivery, from 1
	cursor    json.RawMessage // its state after that delivery
	record    int64           // the log's record that holds the cursor
	paused    int64           // the version that it waits for
	closed    bool
}

func newIntake(log Log) intake {
	return intake{log: log, explorers: map[string]*explorer{}}
}

func (in *intake) explorer(name string) *explorer {
	if in.explorers[name] == nil {
		in.explorers[name] = &explorer{}
	}
	return in.explorers[name]
}

// barred reports whether all open sinks wait for a version after published.
func (in *intake) barred(published int64) bool {
	return in.all(func(e *explorer) bool { return e.closed || e.paused > published })
}

// ended reports whether no explorer will put anything more.
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

// states returns in words what each explorer does, for errors: " (ann may put more, bob waits for
// version 3)".
func (in *intake) states() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(in.explorers)) {
		switch e := in.explorers[name]; {
		case e.closed && name == trinity.YetToJoin:
		case e.closed:
			names = append(names, name+" has closed")
		case e.paused > 0:
			names = append(names, fmt.Sprintf("%s waits for version %d", name, e.paused))
		default:
			names = append(names, name+" may put more")
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// write appends an explorer's next delivery to the log and returns the number of its record.
func (in *intake) write(ctx context.Context, name string, d trinity.Delivery) (int64, error) {
	e := in.explorer(name)
	if in.log != nil {
		record, err := in.log.Append(ctx, newRecord(name, e.delivered+1, d))
		if err != nil {
			return 0, err
		}
		e.record = record
	}
	e.delivered, e.cursor = e.delivered+1, d.Cursor
	return e.record, nil
}

// trim removes the records before oldest from the log. If the last delivery of an explorer is among
// them, trim first writes its cursor again.
func (in *intake) trim(ctx context.Context, oldest int64) error {
	for _, name := range slices.Sorted(maps.Keys(in.explorers)) {
		e := in.explorers[name]
		if e.record >= oldest || e.delivered == 0 {
			continue
		}
		record, err := in.log.Append(ctx, newRecord(name, e.delivered, trinity.Delivery{Cursor: e.cursor}))
		if err != nil {
			return err
		}
		e.record = record
	}
	return in.log.Trim(ctx, oldest)
}

// recall restores the state of an explorer from a record of the log.
func (in *intake) recall(number int64, h Head) {
	e := in.explorer(h.Explorer)
	e.delivered, e.cursor, e.record = h.Delivery, h.Cursor, number
}

// check returns an error if the log cannot be read from a record on, because it has fewer records
// or has trimmed that one.
func (in *intake) check(record int64) error {
	switch first, next := in.log.Bounds(); {
	case record > next:
		return fmt.Errorf("%s has %d records, and the checkpoint continues with record %d: was it removed? %s", in.log, next, record, fewer)
	case record < first:
		return fmt.Errorf("%s keeps no record before %d, and the checkpoint continues with record %d: later checkpoints exist; "+
			"resume from one of them, or give the run another name to begin anew", in.log, first, record)
	}
	return nil
}

// fewer says what to do if a log has fewer records than a checkpoint needs.
const fewer = "Restore a copy of it, remove the checkpoints that are newer than what it has, or give the run another name to begin anew"

// sink is an explorer's side.
type sink struct {
	*intake
	name string
	put  func(ctx context.Context, explorer string, d trinity.Delivery) error
}

// Resume implements trinity.Sink.
func (s *sink) Resume(context.Context) (delivered int64, cursor json.RawMessage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.intake.closed {
		return 0, nil, trinity.ErrEnded
	}
	e := s.explorer(s.name)
	e.paused, e.closed = 0, false
	return e.delivered, e.cursor, nil
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
func (s *sink) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.explorer(s.name).closed = true
	s.signal()
	return nil
}

// Close implements trinity.Buffer. It also closes the log. A second Close does nothing.
func (in *intake) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil
	}
	in.closed = true
	in.signal()
	if in.log == nil {
		return nil
	}
	return in.log.Close()
}
