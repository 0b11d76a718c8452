// Package selector holds the rules by which a step's rows are chosen from a dataset. Every sequence of rows follows from the seed and the
// rows drawn so far alone, so a run that is resumed draws what the uninterrupted one would have drawn.
package selector

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
)

// Options are the arguments that every selector accepts, whether it needs them or not, as Trinity-RFT's data_selector has them.
type Options struct {
	Seed        int      `yaml:"seed" doc:"seed of selectors that draw"`
	FeatureKeys []string `yaml:"feature_keys" doc:"keys of a row, dotted into nested objects, that selectors by difficulty read"`
}

// progress is how far a selector has come. Rows are counted from the beginning of the run, over all epochs.
type progress struct {
	rows  int   // of the dataset
	drawn int64 // rows that Next has given
}

type savedProgress struct {
	Rows  int   `json:"rows"`
	Drawn int64 `json:"drawn"`
}

func (p *progress) start(d trinity.Dataset) error {
	if d.Len() == 0 {
		return errors.New("the dataset has no rows")
	}
	p.rows, p.drawn = d.Len(), 0
	return nil
}

// take counts n further rows and returns the number of the first.
func (p *progress) take(n int) (first int64, err error) {
	if n < 0 {
		return 0, fmt.Errorf("a batch of %d rows was asked for", n)
	}
	if p.rows == 0 {
		return 0, errors.New("the selector was not started")
	}
	first = p.drawn
	p.drawn += int64(n)
	return first, nil
}

// Feedback implements [trinity.Selector]: these selectors do not learn from rewards.
func (p *progress) Feedback(map[int]float64) {}

// State implements [trinity.Selector].
func (p *progress) State() (json.RawMessage, error) {
	return json.Marshal(savedProgress{Rows: p.rows, Drawn: p.drawn})
}

// Restore implements [trinity.Selector]. It refuses the state of a dataset of another length, whose rows are not these.
func (p *progress) Restore(state json.RawMessage) error {
	var s savedProgress
	if err := json.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("selector state: %w", err)
	}
	if s.Rows != p.rows {
		return fmt.Errorf("selector state: it was saved over a dataset of %d rows, this one has %d: resume with the same data, or start a new run", s.Rows, p.rows)
	}
	if s.Drawn < 0 || s.Drawn > math.MaxInt64/2 { // from where the count could overflow
		return fmt.Errorf("selector state: %d rows drawn, which cannot be", s.Drawn)
	}
	p.drawn = s.Drawn
	return nil
}
