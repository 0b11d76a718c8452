package buffer

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
)

// ReplayOptions are what a Replay is made with.
type ReplayOptions struct {
	Capacity int                  // groups, of which the one of the lowest priority gives way to more
	Memory   int64                // bytes, from which on experiences stay in the log only
	Priority trinity.PriorityFunc // which group comes first
	Cooldown *time.Duration       // after which a group that was taken comes back; nil means never
	Seed     int64                // of the priorities' noise

	Reading
	// Lockstep makes Take wait for all that the explorer puts before it pauses, so that which groups come first depends on nothing but seeds.
	Lockstep bool
}

// Replay is a buffer of one process that gives experiences by priority, and again. Its unit is a group, the experiences of one task of a delivery; of
// equal priorities the oldest comes first. A group of which Take gives a part leaves the rest for the next one; the parts are groups of their own from then
// on. What is given again is as it was put, because it is read from the log.
//
// An explorer's Put never waits. A group that finds the buffer full takes the place of that of the lowest priority, unless its own is lower still.
//
// Unlike Trinity-RFT: the version of a group is the newest that one of its experiences began with, in place of the first one's, because a group of
// fully_async is of several; the order of equal priorities, and the noise, depend on nothing but seeds; and what is read again is on the disk.
type Replay struct {
	ReplayOptions
	intake
	index *durable.LogIndex

	coming    []arrival             // deliveries that need a version that is not published yet
	next      int64                 // record of the first of them, or of what is put next
	waiting   ranking               // to be taken
	cooling   []cooling             // taken, and to come back, in that order
	rest      *item                 // of a group that was cut
	first     []*trinity.Experience // come before all: those of a batch that was not whole
	bytes     int64                 // of the experiences that are in memory, about
	oldest    int64                 // version that is still given
	published int64                 // version, as of the last Take
	alarm     *time.Timer           // of the first that comes back
	metrics   replayMetrics
}

// arrival is a delivery that was put.
type arrival struct {
	record int64
	needs  int64 // version
	items  []*item
}

// cooling is a group that comes back.
type cooling struct {
	*item
	due time.Time
}

// NewReplay makes an empty buffer; Restore gives it what the log has.
func NewReplay(options ReplayOptions, log *durable.Log) *Replay {
	return &Replay{ReplayOptions: options, intake: newIntake(log), index: durable.IndexLog(log.Dir()), next: log.Next()}
}

// Sink implements trinity.Buffer. Its Put does not wait.
func (r *Replay) Sink(explorer string) trinity.Sink { return &sink{&r.intake, explorer, r.put} }

func (r *Replay) put(_ context.Context, explorer string, d trinity.Delivery) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.explorer(explorer).closed {
		return trinity.ErrEnded
	}
	record, err := r.write(explorer, d)
	if err != nil {
		return err
	}
	items := r.items(record, slices.Concat(d.Groups...))
	for _, it := range items {
		r.hold(it)
	}
	r.coming = append(r.coming, arrival{record, d.Needs, items})
	r.admit()
	r.signal()
	return nil
}

// Take implements trinity.Source: those of the highest priority first.
func (r *Replay) Take(ctx context.Context, n int, published int64) ([]*trinity.Experience, error) {
	held := func() string {
		return fmt.Sprintf("%d %s that may be read, and %d groups that may be later", r.available(), r.unit(), len(r.cooling))
	}
	if err := r.awaitBatch(ctx, &r.gate, n, held, func() bool { return r.ready(n, published) }); err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	if r.ended() && len(r.coming) == 0 && r.available() == 0 {
		return nil, io.EOF
	}
	out, err := r.give(n)
	if err != nil {
		return nil, fmt.Errorf("experience buffer: %w", err)
	}
	return out, nil
}

// ready says whether Take need not wait any more.
func (r *Replay) ready(n int, published int64) bool {
	r.published = published
	r.admit()
	r.warm()
	barred := r.ended() || r.barred(published) || len(r.coming) > 0
	if barred || r.available() >= n && !r.Lockstep {
		return true
	}
	r.setAlarm()
	return false
}

// Fresh implements trinity.FreshSource.
func (r *Replay) Fresh(oldest int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.oldest = max(r.oldest, oldest)
	for _, it := range r.waiting.removeOlder(r.oldest) {
		r.expire(it)
	}
	if r.rest != nil && r.rest.version < r.oldest {
		r.expire(r.rest)
		r.rest = nil
	}
}

// Metrics implements trinity.MetricsSource, of all that was taken since it was called last: a sample strategy may make a batch of several Takes.
func (r *Replay) Metrics() trinity.Metrics {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.metrics.metrics()
	m["sample/replay_groups"] = float64(len(r.waiting.items) + len(r.cooling))
	r.metrics = replayMetrics{}
	return m
}

// Close implements trinity.Buffer. What was taken does not come back any more, but in lockstep.
func (r *Replay) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.signal()
	return r.index.Close()
}
