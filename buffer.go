package trinity

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Delivery is what an explorer puts at once: the groups of a step, and the explorer's own state
// after them. The two travel together, so that a checkpoint of the buffer is a consistent cut of
// both.
type Delivery struct {
	Groups []Group
	Cursor json.RawMessage // the explorer's state
	// Needs is the version that the explorer waited for before it sampled these groups. A trainer that
	// resumes from an earlier version gets them once it has published that version again.
	Needs int64
}

// Buffer carries groups from explorers to a trainer.
type Buffer interface {
	Source
	// Sink returns the explorer's side of the buffer. Several explorers may use it at once, each under
	// its own name.
	Sink(explorer string) Sink
	// Trim discards what neither the state s nor any later state needs.
	Trim(ctx context.Context, s SourceState) error
	// Close ends the buffer. Every later Put returns ErrEnded, and Take does so once nothing is left.
	Close() error
}

// BufferOpener opens buffers outside of the run's own files, such as those in a database.
type BufferOpener interface {
	// OpenBuffer opens a buffer. ctx lasts as long as the buffer is used: it ends when the run is
	// stopped. From then on the buffer retries nothing and does not wait for a silent server.
	OpenBuffer(ctx context.Context, s BufferSpec) (Buffer, error)
}

// BufferSpec says which buffer a BufferOpener opens.
type BufferSpec struct {
	Name          string        // several runs may have buffers at one path, each under its own name
	Path          string        // a URL
	Capacity      int           // rollouts; Put waits while the buffer holds as many or more
	Memory        int64         // bytes of experiences that the buffer may also keep in memory
	TakeTimeout   time.Duration // bounds a Take; 0 means no limit
	PutTimeout    time.Duration // bounds a Put; 0 means no limit
	Retries       int           // after a failure that may pass, such as a lost connection
	RetryInterval time.Duration
	Say           func(string) // prints a line for people, such as that the server is lost or back; may be nil
}

// YetToJoin is the name of a Sink without an explorer. The trainer keeps it open while it waits for
// explorers that have not joined.
const YetToJoin = "an explorer that is yet to join"

// Sink is an explorer's side of a buffer.
type Sink interface {
	// Resume returns where the explorer continues: the number of its last delivery and the cursor
	// after it, or 0 and nil if there is none. The explorer calls it once, before the first Put. A
	// delivery that a killed explorer had not put as a whole is lost. Once the buffer is closed, the
	// error is ErrEnded.
	Resume(ctx context.Context) (delivered int64, cursor json.RawMessage, err error)
	// Put adds a delivery as a whole and gives it the next number. It blocks while the buffer is full,
	// and returns ErrEnded once the sink or the buffer is closed. After an error the delivery is not
	// in the buffer.
	Put(ctx context.Context, d Delivery) error
	// Pause announces that the explorer puts nothing more before the trainer publishes version until.
	Pause(ctx context.Context, until int64) error
	// Close announces that the explorer puts nothing more. The buffer ends once all explorers have
	// closed their sinks.
	Close(ctx context.Context) error
}

// Source is what a trainer reads from: a buffer, or a dataset of demonstrations or preferences.
type Source interface {
	// Take removes the number of experiences or rollouts that want asks for, oldest first, and blocks
	// until they are there. It returns fewer, or none, in two cases: all explorers have paused for a
	// version after the published one, or the next delivery needs such a version; or the source has
	// ended, and these are the last. After the last, it returns io.EOF.
	Take(ctx context.Context, want Want) (Taken, error)
	// State returns what a resumed run needs to continue from here. Restore continues from it.
	State() (SourceState, error)
	Restore(SourceState) error
}

// Want says what a trainer takes from a Source.
type Want struct {
	N         int   // number of experiences or, if Rollouts is set, of rollouts
	Rollouts  bool  // take whole rollouts
	Published int64 // the newest version that the trainer has published
	Oldest    int64 // a source may leave out what versions before this one sampled; it never falls
	Continues bool  // an earlier Take gave a part of this batch, so the metrics cover both
}

// Count returns the number of experiences in the groups or, if w.Rollouts is set, of rollouts.
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

// Taken is the result of Take. Take may have cut the first and the last group.
type Taken struct {
	Groups  []Group
	Metrics Metrics // of the batch, and of the experiences left out; may be nil
	// Dropped are the experiences left out, by who left them out, as far as the source can tell.
	Dropped map[string][]ExperienceID
}

// Experiences returns the experiences of all groups, in order.
func (t Taken) Experiences() []*Experience { return slices.Concat(t.Groups...) }

// JoinGroups appends groups to held. If Take has cut a group, its two parts become one group again.
func JoinGroups(held []Group, groups ...Group) []Group {
	for _, g := range groups {
		last := len(held) - 1
		if len(g) > 0 && last >= 0 && len(held[last]) > 0 &&
			held[last][0].ID.Step == g[0].ID.Step && held[last][0].ID.Task == g[0].ID.Task {
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

// Operator edits the groups of a step between explorer and buffer. It gets all groups at once,
// because shares and means of a step are not sums over its groups. It returns the groups that it
// keeps, in order; an empty group counts as dropped. A method Open(Host) error is optional: the run
// calls it before the first step. What it opens at the host ends with the stage.
type Operator interface {
	Process(ctx context.Context, groups []Group) (kept []Group, metrics Metrics, err error)
}
