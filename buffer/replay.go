package buffer

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// ReplayOptions are the settings of a Replay.
type ReplayOptions struct {
	Capacity int            // groups; when there are more, the buffer drops the lowest priority
	Memory   int64          // bytes; with as many or more in memory, further experiences stay in the log
	Priority PriorityFunc   // decides which group comes first
	Cooldown *time.Duration // until a taken group comes back; nil means never
	Seed     int64          // of the priorities' noise

	// ByRollout makes Take count, and give, whole rollouts.
	ByRollout bool
	// TakeTimeout bounds how long the trainer waits for a batch; 0 means no limit.
	TakeTimeout time.Duration
	// Lockstep makes Take wait for everything that the explorers put before they pause, so that only
	// seeds determine which groups come first.
	Lockstep bool
}

// Replay is a buffer that gives groups by priority, and more than once. Among equal priorities the
// oldest comes first. If Take gives a part of a group, the rest comes with the next Take; from then
// on the parts are two groups. Replay gives a group again as the explorer put it, because it reads
// it from the log.
//
// Put never waits. If the buffer is full, the group with the lowest priority goes, which may be the
// new one.
//
// Unlike Trinity-RFT: the version of a group is the newest version at which one of its experiences
// began, not that of its first experience, because a group of fully_async has several; only seeds
// determine the order of equal priorities, and the noise; and groups to read again are on the disk.
type Replay struct {
	ReplayOptions
	intake
	coming    []arrival       // deliveries that need a version that is not published yet
	next      int64           // record of the first of them, or else of the next Put
	waiting   ranking         // groups that Take may give
	cooling   []cooling       // taken groups that come back, in that order
	rest      *item           // the rest of a group that Take has cut
	first     []trinity.Group // groups of a checkpoint, from an incomplete batch; they come before all others
	bytes     int64           // estimate for the experiences in memory
	oldest    int64           // the oldest version that Take may give
	published int64           // version, at the last Take
	alarm     *time.Timer     // until the first of cooling comes back
	metrics   replayMetrics   // since the last Take
	batch     replayMetrics   // of the current batch, which may take several calls of Take
}

// arrival is a delivery in the order of the puts.
type arrival struct {
	record int64
	needs  int64 // version
	items  []*item
}

// cooling is a taken group that comes back when it is due.
type cooling struct {
	*item
	due time.Time
}

// NewReplay returns an empty buffer. Restore reads the log.
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

// Take implements trinity.Source. It gives the groups of the highest priority.
func (r *Replay) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	if want.Rollouts != r.ByRollout {
		return trinity.Taken{}, fmt.Errorf("experience buffer: it counts %s, and the trainer asks for %s", unit(r.ByRollout), unit(want.Rollouts))
	}
	r.expireOld(want)
	held := func() string {
		return fmt.Sprintf("%d %s that may be read, and %d groups that may be later%s",
			r.available(), unit(r.ByRollout), len(r.cooling), r.states())
	}
	ready := func() bool { return r.ready(want.N, want.Published) }
	if err := r.awaitBatch(ctx, r.TakeTimeout, want, held, ready); err != nil {
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

// count returns the number of rollouts or of experiences, whichever Take counts.
func (r *Replay) count(exps []*trinity.Experience) int {
	if r.ByRollout {
		return rollouts(exps)
	}
	return len(exps)
}

// ready reports whether Take has no reason to wait.
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

// expireOld drops the groups that want.Oldest excludes.
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
