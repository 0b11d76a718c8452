package explorer

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/selector"
)

// Recorded is a dataset whose rows are recorded groups of experiences.
type Recorded interface {
	selector.Dataset
	// Largest returns the number of rollouts of the largest group.
	Largest() int
	// Group returns a new copy of group i and the row of the data where it begins.
	Group(i int) (group trinity.Group, row int, err error)
}

// ShareOfGroups returns the k-th of n shares, counted from 1, as [ShareOf] does for rows.
func ShareOfGroups(d Recorded, k, n int) Recorded { return &sharedGroups{ShareOf(d, k, n), d} }

type sharedGroups struct {
	*Share
	whole Recorded
}

func (s *sharedGroups) Largest() int { return s.whole.Largest() }

func (s *sharedGroups) Group(i int) (trinity.Group, int, error) { return s.whole.Group(s.number(i)) }

// Input adds recorded experiences to a run: its next groups join the groups of each step's rollouts
// before the pipeline.
type Input struct {
	Name     string
	Data     Recorded
	Selector selector.Selector // of groups
	PerStep  int               // groups per step
	Limit    int64             // groups per run; 0 is no limit
	Explorer string            // prefix of task IDs if there are several explorers; "" if there is one

	taken int64 // groups so far
}

// next returns the input's groups for a step. Their experiences get the step and a task ID made of
// the input's name and the row; Info["input"] is the input's name. The pipeline computes their
// advantages again; everything else stays as recorded.
func (in *Input) next(step int64) (groups []trinity.Group, err error) {
	n := int64(in.PerStep)
	if in.Limit > 0 {
		n = min(n, in.Limit-in.taken)
	}
	if n <= 0 {
		return nil, nil
	}
	chosen, err := in.Selector.Next(int(n))
	if err != nil {
		return nil, err
	}
	in.taken += n
	times := map[int]int{}
	for _, i := range chosen {
		group, row, err := in.Data.Group(i)
		if err != nil {
			return nil, err
		}
		times[i]++
		task := repeated(taskID(in.Explorer, in.Name, row), times[i])
		for _, e := range group {
			e.ID.Step, e.ID.Task = step, task
			e.Info = maps.Clone(e.Info)
			if e.Info == nil {
				e.Info = map[string]any{}
			}
			e.Info["input"] = in.Name
			e.Advantages, e.Returns = nil, nil
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// Inputs are all inputs of an explorer; their names differ.
type Inputs []*Input

// PerStep returns the largest number of rollouts that the inputs add to a step.
func (all Inputs) PerStep() int {
	n := 0
	for _, in := range all {
		n += in.PerStep * in.Data.Largest()
	}
	return n
}

// savedInput is the position of an input.
type savedInput struct {
	Name     string          `json:"name"`
	Taken    int64           `json:"taken"`
	Selector json.RawMessage `json:"selector"`
}

// join appends the inputs' groups for a step and counts their experiences in metrics.
func (all Inputs) join(step int64, groups []trinity.Group, metrics trinity.Metrics) ([]trinity.Group, error) {
	for _, in := range all {
		more, err := in.next(step)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", in.Name, err)
		}
		n := 0
		for _, g := range more {
			n += len(g)
		}
		metrics["experience_pipeline/input/"+in.Name+"_count"] = float64(n)
		groups = append(groups, more...)
	}
	return groups, nil
}

func (all Inputs) state() ([]savedInput, error) {
	var saved []savedInput
	for _, in := range all {
		state, err := in.Selector.State()
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", in.Name, err)
		}
		saved = append(saved, savedInput{in.Name, in.taken, state})
	}
	return saved, nil
}

// restore continues from a state; it refuses the state of other inputs.
func (all Inputs) restore(saved []savedInput) error {
	if len(saved) != len(all) {
		return fmt.Errorf("explorer state: has %d inputs of the experience pipeline, the configuration has %d: "+
			"resume with the same inputs, or start a new run",
			len(saved), len(all))
	}
	for i, in := range all {
		was := saved[i]
		if was.Name != in.Name || was.Taken < 0 {
			return fmt.Errorf("input %s: the explorer state has input %s with %d groups taken: resume with the same inputs, or start a new run",
				in.Name, was.Name, was.Taken)
		}
		if err := in.Selector.Restore(was.Selector); err != nil {
			return fmt.Errorf("input %s: %w", in.Name, err)
		}
		in.taken = was.Taken
	}
	return nil
}
