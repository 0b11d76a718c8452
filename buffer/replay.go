package buffer

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// ReplayOptions are what a Replay is made with.
type ReplayOptions struct {
	Capacity int            // groups, of which the one of the lowest priority gives way to more
	Memory   int64          // bytes, from which on experiences stay in the log only
	Priority PriorityFunc   // which group comes first
	Cooldown *time.Duration // after which a group that was taken comes back; nil means never
	Seed     int64          // of the priorities' noise

	// ByRollout makes Take count rollouts, of which it cuts none, in place of experiences.
	ByRollout bool
	// TakeTimeout bounds how long the trainer waits for a batch; 0 is no limit.
	TakeTimeout time.Duration
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
	coming    []arrival       // deliveries that need a version that is not published yet
	next      int64           // record of the first of them, or of what is put next
	waiting   ranking         // to be taken
	cooling   []cooling       // taken, and to come back, in that order
	rest      *item           // of a group that was cut
	first     []trinity.Group // come before all others: a checkpoint had them, for a batch that was not whole
	bytes     int64           // of the experiences that are in memory, about
	oldest    int64           // version that is still given
	published int64           // version, as of the last Take
	alarm     *time.Timer     // of the first that comes back
	metrics   replayMetrics   // since the last Take
	batch     replayMetrics   // of the batch that the last Take gave, or a part of it
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
func NewReplay(options ReplayOptions, log Log) *Replay {
	r := &Replay{ReplayOptions: options, intake: newIntake(log)}
	_, r.next = log.Bounds()
	return r
}

// Sink implements trinity.Buffer. Its Put does not wait.
func (r *Replay) Sink(explorer string) trinity.Sink { return &sink{&r.intake, explorer, r.put} }

func (r *Replay) put(ctx context.Context, explorer string, d trinity.Delivery) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.explorer(explorer).closed {
		return trinity.ErrEnded
	}
	record, err := r.write(ctx, explorer, d)
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
func (r *Replay) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	if want.Rollouts != r.ByRollout {
		return trinity.Taken{}, fmt.Errorf("experience buffer: it counts %s, and %s were asked for", unit(r.ByRollout), unit(want.Rollouts))
	}
	r.expireOld(want)
	held := func() string {
		return fmt.Sprintf("%d %s that may be read, and %d groups that may be later%s", r.available(), unit(r.ByRollout), len(r.cooling), r.states())
	}
	if err := r.awaitBatch(ctx, r.TakeTimeout, want, held, func() bool { return r.ready(want.N, want.Published) }); err != nil {
		return trinity.Taken{}, err
	}
	defer r.mu.Unlock()
	if r.ended() && len(r.coming) == 0 && r.available() == 0 {
		return trinity.Taken{}, io.EOF
	}
	out, err := r.give(ctx, want.N)
	if err != nil {
		return trinity.Taken{}, fmt.Errorf("experience buffer: %w", err)
	}
	if !want.Continues {
		r.batch = replayMetrics{}
	}
	r.batch.add(r.metrics)
	r.metrics = replayMetrics{}
	m := r.batch.metrics()
	m["sample/replay_groups"] = float64(len(r.waiting.items) + len(r.cooling))
	return trinity.Taken{Groups: out, Metrics: m}, nil
}

// count is how many of what Take counts the experiences are.
func (r *Replay) count(exps []*trinity.Experience) int {
	if r.ByRollout {
		return rollouts(exps)
	}
	return len(exps)
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

// expireOld drops groups that are too old for what is wanted.
func (r *Replay) expireOld(want trinity.Want) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.oldest = max(r.oldest, want.Oldest)
	for _, it := range r.waiting.removeOlder(r.oldest) {
		r.expire(it)
	}
	if r.rest != nil && r.rest.version < r.oldest {
		r.expire(r.rest)
		r.rest = nil
	}
}
