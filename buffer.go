package trinity

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Delivery is what an explorer hands over at once: the groups of a step, and the explorer's own state after them. The two travel together, so
// that a checkpoint of the buffer is a consistent cut of both.
type Delivery struct {
	Groups []Group
	Cursor json.RawMessage
	// Needs is the version that the explorer waited for before it sampled these groups. A trainer that has not published it, because a kill has
	// thrown it back, does not see them yet.
	Needs int64
}

// Buffer carries groups from explorers to a trainer.
type Buffer interface {
	Source
	// Sink is where the explorer of that name puts; a buffer may have several at once, each of another name.
	Sink(explorer string) Sink
	// Trim lets go of what neither a state nor any later one needs.
	Trim(ctx context.Context, s SourceState) error
	// Close says that nothing more is taken, or put.
	Close() error
}

// BufferOpener opens buffers outside of the run's own files, such as those in a database.
type BufferOpener interface {
	// OpenBuffer opens a buffer. ctx lasts as long as the buffer is used: it ends when the run is
	// stopped. From then on the buffer retries nothing and does not wait for a silent server.
	OpenBuffer(ctx context.Context, s BufferSpec) (Buffer, error)
}

// BufferSpec says what a buffer is to be.
type BufferSpec struct {
	Name          string // of the run's buffer: others may be in the same place
	Path          string // where it is, a URL
	Capacity      int    // rollouts, from which on Put waits
	Memory        int64  // bytes of experiences that may be kept in memory besides
	TakeTimeout   time.Duration
	PutTimeout    time.Duration // 0 is as long as it takes, of both
	Retries       int           // after a failure that may pass, such as a lost connection
	RetryInterval time.Duration
	Say           func(string) // prints a line for people, such as that the server is lost or back; may be nil
}

// YetToJoin is the name of a Sink that nobody has: it is open while the trainer waits for explorers that have not joined.
const YetToJoin = "an explorer that is yet to join"

// Sink is an explorer's side of a buffer.
type Sink interface {
	// Resume returns where the explorer continues: the number of its last delivery and the cursor after it, 0 and nil if there was none. The explorer calls
	// it once, before the first Put; a delivery that a killed explorer had not put as a whole is gone. Once the buffer is closed the error is ErrEnded.
	Resume(ctx context.Context) (delivered int64, cursor json.RawMessage, err error)
	// Put adds a delivery as a whole, and gives it the next number. It blocks while the buffer is full, and returns ErrEnded once the sink or the buffer is
	// closed. After an error the delivery is not in the buffer.
	Put(ctx context.Context, d Delivery) error
	// Pause says that the explorer puts nothing more before the trainer has published version until.
	Pause(ctx context.Context, until int64) error
	// Close says that the explorer puts nothing more. The buffer is closed once all explorers have closed theirs.
	Close(ctx context.Context) error
}

// Source is what a trainer reads from: a buffer, or a dataset of demonstrations or preferences.
type Source interface {
	// Take removes as much as want says, oldest first, and blocks until there is that much. It returns less, even
	// nothing, only in two cases: if all explorers have paused for a version after the published one, or what follows
	// needs such a version; and once the source is closed, what remains, and then io.EOF.
	Take(ctx context.Context, want Want) (Taken, error)
	// State returns what a resumed run needs to go on from here; Restore takes it back.
	State() (SourceState, error)
	Restore(SourceState) error
}

// Want says what a trainer takes from a Source.
type Want struct {
	N         int   // experiences, or rollouts
	Rollouts  bool  // N counts rollouts, of which Take cuts none
	Published int64 // the newest version that the trainer has published
	Oldest    int64 // a source may leave out what versions before this one have sampled; it never falls
	Continues bool  // an earlier Take gave a part of the same batch: the metrics are of both
}

// Count returns how many of what w counts the groups hold.
func (w Want) Count(groups []Group) int {
	n := 0
	var before *Experience
	for _, g := range groups {
		for _, e := range g {
			if !w.Rollouts || before == nil || !e.ID.Follows(before.ID) {
				n++
			}
			before = e
		}
	}
	return n
}

// Taken is what a Source gives. The first and the last group may be parts of groups that Take has cut.
type Taken struct {
	Groups  []Group
	Metrics Metrics // of the batch, and of what was left out; nil for none
}

// Experiences returns those of all groups, in order.
func (t Taken) Experiences() []*Experience { return slices.Concat(t.Groups...) }

// JoinGroups appends groups to held. Two parts of a group that Take has cut become one group again where they meet.
func JoinGroups(held []Group, groups ...Group) []Group {
	for _, g := range groups {
		last := len(held) - 1
		if len(g) > 0 && last >= 0 && len(held[last]) > 0 && held[last][0].ID.Step == g[0].ID.Step && held[last][0].ID.Task == g[0].ID.Task {
			held[last] = append(slices.Clip(held[last]), g...)
			continue
		}
		held = append(held, g)
	}
	return held
}

// SourceState is the place from which a resumed trainer reads.
type SourceState struct {
	Cursor  json.RawMessage `json:"cursor,omitempty"`  // a place in the source's own store
	Pending []Group         `json:"pending,omitempty"` // groups to read before it, which no store has
}

// Operator edits the groups of a step between explorer and buffer. It sees them all at once, because shares and means of a step are no sums
// over its groups. It returns those that are left, in order; an empty group counts as dropped.
type Operator interface {
	Process(ctx context.Context, groups []Group) (kept []Group, metrics Metrics, err error)
}

// Dataset is random access to the rows of a taskset or of training data.
type Dataset interface {
	Len() int
	Row(i int) (map[string]any, error)
}

// Selector chooses the rows of each step. State and Restore make it resumable.
type Selector interface {
	// Start is called once, before Next, with the dataset whose rows are chosen.
	Start(d Dataset) error
	// Next returns the rows of the next batch of n.
	Next(n int) ([]int, error)
	// Feedback reports the mean reward of rows that were run.
	Feedback(rewards map[int]float64)
	State() (json.RawMessage, error)
	Restore(json.RawMessage) error
}
