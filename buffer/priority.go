package buffer

import "github.com/trinity-go/trinity/registry"

// PriorityFunc decides in which order a replay buffer reads groups, and which groups it keeps.
type PriorityFunc interface {
	// Priority returns the priority of a group. The buffer reads the highest first and drops the
	// lowest when it is full. If keep is false, it does not read the group again.
	Priority(r Replayed) (priority float64, keep bool)
}

// Replayed is what a PriorityFunc knows of a group.
type Replayed struct {
	Version int64   // newest version at which one of its experiences began
	Uses    int     // how often the buffer has given the group
	Noise   float64 // drawn from N(0, 1); seed, group and number of uses determine it
}

// PriorityFuncs holds the priority functions by name.
var PriorityFuncs = registry.New[PriorityFunc]("priority_fn",
	"what a replay buffer reads first (experience_buffer.replay_buffer.priority_fn)")
