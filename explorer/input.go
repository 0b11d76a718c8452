package explorer

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/trinity-go/trinity"
)

// Recorded is a dataset whose rows are groups of experiences that were made before.
type Recorded interface {
	trinity.Dataset
	// Largest is the number of rollouts of the group that has most.
	Largest() int
	// Group makes group i anew, and says which row of the data it begins at.
	Group(i int) (group trinity.Group, row int, err error)
}

// ShareOfGroups is the k-th share, counted from 1, of n, as [ShareOf] gives rows.
func ShareOfGroups(d Recorded, k, n int) Recorded { return &sharedGroups{ShareOf(d, k, n), d} }

type sharedGroups struct {
	*Share
	whole Recorded
}

func (s *sharedGroups) Largest() int { return s.whole.Largest() }

func (s *sharedGroups) Group(i int) (trinity.Group, int, error) { return s.whole.Group(s.number(i)) }

// Input is experiences that were recorded before: its next groups join those of each step's rollouts on their way through the pipeline.
type Input struct {
	Name     string
	Data     Recorded
	Selector trinity.Selector // of groups
	PerStep  int              // groups
	Limit    int64            // groups of the whole run; 0 is as many as there are steps to go with
	Explorer string           // name of one of several explorers; "" where there is one

	taken int64 // groups
}

// next gives the groups of a step. They are experiences of that step, of a task that is called after the input and the row, and Info["input"] has the
// input's name; what else was recorded stays, but for advantages, which the pipeline makes anew.
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
		task := again(taskName(in.Explorer, in.Name, row), times[i])
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

// Inputs are all inputs of an explorer, of different names.
type Inputs []*Input

// PerStep is how many rollouts the inputs add to a step at most.
func (all Inputs) PerStep() int {
	n := 0
	for _, in := range all {
		n += in.PerStep * in.Data.Largest()
	}
	return n
}

// savedInput is where an input is.
type savedInput struct {
	Name     string          `json:"name"`
	Taken    int64           `json:"taken"`
	Selector json.RawMessage `json:"selector"`
}

// join adds the groups of a step, input by input, and counts their experiences in metrics.
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

// restore refuses the state of other inputs.
func (all Inputs) restore(saved []savedInput) error {
	if len(saved) != len(all) {
		return fmt.Errorf("state of the inputs: it is of %d inputs of the experience pipeline, there are %d: resume with the same inputs, or start a new run", len(saved), len(all))
	}
	for i, in := range all {
		was := saved[i]
		if was.Name != in.Name || was.Taken < 0 {
			return fmt.Errorf("input %s: the state is of input %s, of which %d groups were taken: resume with the same inputs, or start a new run", in.Name, was.Name, was.Taken)
		}
		if err := in.Selector.Restore(was.Selector); err != nil {
			return fmt.Errorf("input %s: %w", in.Name, err)
		}
		in.taken = was.Taken
	}
	return nil
}
