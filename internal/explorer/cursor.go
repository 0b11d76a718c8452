package explorer

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
)

// cursor is the explorer's state after a step, as JSON.
type cursor struct {
	Step  int64           `json:"step"`
	Tasks json.RawMessage `json:"tasks"`
	// Inputs are the positions of the inputs of the experience pipeline.
	Inputs []savedInput `json:"inputs,omitempty"`
	// Ahead lists the tasks of the steps in flight behind Step, in order. Tasks is the selectors'
	// position after these steps.
	Ahead [][]tasksetRows `json:"ahead,omitempty"`
	// Scores is the state of the advantage function after the step.
	Scores json.RawMessage `json:"scores,omitempty"`
	// Owed are the step's metrics if an evaluation follows the step: the explorer logs both
	// together, in a resumed run too. They hold no durations or speeds, so that checkpoints do not
	// depend on the clock.
	Owed map[string]exact `json:"owed,omitempty"`
	// Evaluating is the step whose evaluation runs beside the steps after it, and is not logged yet.
	Evaluating *int64 `json:"evaluating,omitempty"`
}

// exact is a number that JSON writes as text, because it may be infinite or NaN.
type exact float64

// MarshalText implements [encoding.TextMarshaler].
func (x exact) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(x), 'g', -1, 64), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (x *exact) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	*x = exact(v)
	return err
}

func newCursor(step int64, tasks json.RawMessage, ahead [][]tasksetRows, inputs []savedInput, owed trinity.Metrics) cursor {
	c := cursor{Step: step, Tasks: tasks, Ahead: ahead, Inputs: inputs}
	if owed != nil {
		c.Owed = map[string]exact{}
	}
	for name, v := range owed {
		if !timed(name) {
			c.Owed[name] = exact(v)
		}
	}
	return c
}

// timed reports whether a metric depends on the clock, or on which calls the sampler computes together.
func timed(name string) bool {
	return strings.Contains("/"+name, "/time/") || strings.HasSuffix(name, "per_second") || strings.Contains(name, reusedMetric) ||
		name == acceptedMetric || name == savedMetric
}

// metrics returns the owed metrics, nil if there are none.
func (c cursor) metrics() trinity.Metrics {
	if c.Owed == nil {
		return nil
	}
	m := trinity.Metrics{}
	for name, v := range c.Owed {
		m[name] = float64(v)
	}
	return m
}
