package explorer

import (
	"encoding/json"
	"fmt"
)

// savedMix is the state of a [Mix].
type savedMix struct {
	Epoch    int64          `json:"epoch"`
	Tasksets []savedTaskset `json:"tasksets"`
}

type savedTaskset struct {
	Name     string          `json:"name"`
	Share    int             `json:"share"`
	Left     int             `json:"left"`
	Selector json.RawMessage `json:"selector"`
}

// state returns the position of the mix and of each selector.
func (m *Mix) state() (json.RawMessage, error) {
	saved := savedMix{Epoch: m.epoch}
	for i, s := range m.sets {
		state, err := s.Selector.State()
		if err != nil {
			return nil, fmt.Errorf("taskset %s: %w", s.Template.Taskset, err)
		}
		saved.Tasksets = append(saved.Tasksets, savedTaskset{s.Template.Taskset, m.share[i], m.left[i], state})
	}
	return json.Marshal(saved)
}

// restore continues from a state; it refuses the state of other tasksets or weights.
func (m *Mix) restore(state json.RawMessage) error {
	var saved savedMix
	if err := json.Unmarshal(state, &saved); err != nil {
		return fmt.Errorf("explorer state: tasksets: %w", err)
	}
	if len(saved.Tasksets) != len(m.sets) || saved.Epoch < 0 {
		return fmt.Errorf("explorer state: has %d tasksets in epoch %d, the configuration has %d: "+
			"resume with the same tasksets, or start a new run",
			len(saved.Tasksets), saved.Epoch, len(m.sets))
	}
	for i, s := range m.sets {
		was, name := saved.Tasksets[i], s.Template.Taskset
		if was.Name != name || was.Share != m.share[i] || was.Left < 0 || was.Left > was.Share {
			return fmt.Errorf("taskset %s with %d tasks per epoch: the explorer state has taskset %s with %d, %d of them left: "+
				"resume with the same tasksets and weights, or start a new run",
				name, m.share[i], was.Name, was.Share, was.Left)
		}
		m.left[i] = was.Left
		if err := s.Selector.Restore(was.Selector); err != nil {
			return fmt.Errorf("taskset %s: %w", name, err)
		}
	}
	m.epoch = saved.Epoch
	return nil
}

// check returns an error if rows were chosen from another taskset or lie outside of one.
func (m *Mix) check(all []tasksetRows) error {
	for _, c := range all {
		s := m.set(c.Taskset)
		if s == nil {
			return fmt.Errorf("explorer state: a step in flight has tasks of taskset %s, which is not configured: "+
				"resume with the same tasksets, or start a new run", c.Taskset)
		}
		for _, row := range c.Rows {
			if row < 0 || row >= s.Data.Len() {
				return fmt.Errorf("explorer state: a step in flight has row %d of taskset %s, which has %d: "+
					"resume with the same data, or start a new run",
					row, c.Taskset, s.Data.Len())
			}
		}
	}
	return nil
}
