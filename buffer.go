package trinity

import "context"

// Buffer carries groups from explorer to trainer.
type Buffer interface {
	// Put adds a group; it blocks while the buffer is full.
	Put(ctx context.Context, g Group) error
	// Take removes n experiences, oldest first; it blocks until there are that many. io.EOF means that the buffer is closed and holds
	// fewer than n: nothing that was put is lost without a word, the error says how many stay.
	Take(ctx context.Context, n int) ([]*Experience, error)
	// Pending returns what is in the buffer, oldest first, for a checkpoint.
	Pending() []*Experience
	// Close says that nothing more is put.
	Close() error
}

// Operator edits a group between explorer and buffer. An empty result drops the group.
type Operator interface {
	Process(ctx context.Context, g Group) (Group, Metrics, error)
}

// Dataset is random access to the rows of a taskset or of training data.
type Dataset interface {
	Len() int
	Row(i int) (map[string]any, error)
}

// Selector chooses the rows of each step. State and Restore make it resumable.
type Selector interface {
	// Start is called once, before Next, with the number of rows and their feature values (feature_keys), if asked for.
	Start(rows int, features func(row int, key string) (float64, error)) error
	// Next returns the rows of the next batch of n.
	Next(n int) ([]int, error)
	// Feedback reports what came of rows (row index to mean reward).
	Feedback(rewards map[int]float64)
	State() ([]byte, error)
	Restore([]byte) error
}

// Synchronizer brings new weights to those who sample.
type Synchronizer interface {
	// Publish announces that version exists; the engine has already made it available.
	Publish(ctx context.Context, version int64) error
	// Wait returns once a version ≥ min is in use by the sampler, and says which. Its deadline error names who it waited for.
	Wait(ctx context.Context, min int64) (int64, error)
	Close() error
}
