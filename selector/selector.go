// Package selector holds the rules that choose the rows of a step from a dataset. The sequence of
// rows depends only on the seed and the rows drawn so far, so a resumed run draws the rows that the
// uninterrupted run would have drawn.
package selector

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/trinity-go/trinity/registry"
)

// Selectors are the rules that a taskset or training data may name.
var Selectors = registry.New[Selector]("selector", "which rows of a taskset come next (data_selector.selector_type)")

// Dataset is random access to the rows of a taskset or of training data.
type Dataset interface {
	Len() int
	Row(i int) (map[string]any, error)
}

// Selector chooses the rows of each step. State and Restore make it resumable.
type Selector interface {
	// Start sets the dataset. The caller calls it once, before Next.
	Start(d Dataset) error
	// Next returns the rows of the next batch of n.
	Next(n int) ([]int, error)
	// Feedback reports the mean rewards of rows.
	Feedback(rewards map[int]float64)
	State() (json.RawMessage, error)
	Restore(json.RawMessage) error
}

// options are the arguments that every selector accepts, whether it needs them or not, like
// Trinity-RFT's data_selector.
type options struct {
	Seed        int      `yaml:"seed" doc:"random seed, for selectors that draw"`
	FeatureKeys []string `yaml:"feature_keys" doc:"keys of a row that selectors by difficulty read; dots lead into nested objects"`
}

// progress counts the rows that a selector has drawn since the beginning of the run, over all
// epochs.
type progress struct {
	rows  int   // of the dataset
	drawn int64 // rows that Next has returned
}

type savedProgress struct {
	Rows  int   `json:"rows"`
	Drawn int64 `json:"drawn"`
}

func (p *progress) start(d Dataset) error {
	if d.Len() == 0 {
		return errors.New("the dataset has no rows")
	}
	p.rows, p.drawn = d.Len(), 0
	return nil
}

// take counts n more rows and returns the number of the first one.
func (p *progress) take(n int) (first int64, err error) {
	if n < 0 {
		return 0, fmt.Errorf("cannot select a batch of %d rows", n)
	}
	if p.rows == 0 {
		return 0, errors.New("the selector was not started")
	}
	first = p.drawn
	p.drawn += int64(n)
	return first, nil
}

// Feedback implements [Selector]. These selectors do not learn from rewards.
func (p *progress) Feedback(map[int]float64) {}

// State implements [Selector].
func (p *progress) State() (json.RawMessage, error) {
	return json.Marshal(savedProgress{Rows: p.rows, Drawn: p.drawn})
}

// Restore implements [Selector]. It refuses the state of a dataset with another number of
// rows.
func (p *progress) Restore(state json.RawMessage) error {
	var s savedProgress
	if err := json.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("selector state: %w", err)
	}
	if s.Rows != p.rows {
		return fmt.Errorf("selector state: the saved dataset had %d rows, this one has %d: resume with the same data, or start a new run",
			s.Rows, p.rows)
	}
	if s.Drawn < 0 || s.Drawn > math.MaxInt64/2 { // beyond this the count could overflow
		return fmt.Errorf("selector state: it counts %d drawn rows, which is impossible", s.Drawn)
	}
	p.drawn = s.Drawn
	return nil
}
