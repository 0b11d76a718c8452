package bridge

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
)

// Memory is the state of an instance of a class in Python that has state_dict and load_state_dict. Each answer of the
// instance brings it. A process that ends loses nothing: the next one makes the instance anew, with this state. The zero
// value belongs to an instance that has answered no question yet.
type Memory struct {
	of      int64 // number of the instance in this process
	version int   // answers that have changed the state
	state   json.RawMessage
}

var instances atomic.Int64

// told returns what a question says of the instance.
func (m *Memory) told() map[string]any {
	if m.of == 0 {
		m.of = instances.Add(1)
	}
	return map[string]any{"of": m.of, "version": m.version, "state": m.state}
}

// savedMemory is a memory in a checkpoint.
type savedMemory struct {
	Class string          `json:"class"`
	State json.RawMessage `json:"state"`
}

// Save returns the state of a class for a checkpoint; nil if it has none.
func (m *Memory) Save(class string) (json.RawMessage, error) {
	if m.state == nil {
		return nil, nil
	}
	return json.Marshal(savedMemory{class, m.state})
}

// Load takes a state that Save has returned. One of another class is ignored, because the configuration has changed.
func (m *Memory) Load(class string, saved json.RawMessage) error {
	var s savedMemory
	if err := json.Unmarshal(saved, &s); err != nil {
		return fmt.Errorf("saved state of %s: %w", class, err)
	}
	if s.Class == class {
		m.Set(s.State)
	}
	return nil
}

// Set gives the instance a state, with the next question.
func (m *Memory) Set(state json.RawMessage) { m.version, m.state = m.version+1, state }

// State returns the state; nil if the instance has not said what it is.
func (m *Memory) State() json.RawMessage { return m.state }

// remembered decodes an answer and takes the state that it brings.
type remembered struct {
	memory *Memory
	answer any
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *remembered) UnmarshalJSON(line []byte) error {
	var said struct{ State json.RawMessage }
	if err := json.Unmarshal(line, &said); err != nil {
		return err
	}
	if said.State != nil {
		r.memory.Set(said.State)
	}
	return json.Unmarshal(line, r.answer)
}
