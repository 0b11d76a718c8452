package buffer

import (
	"fmt"
	"math"
)

func init() {
	PriorityFuncs.Register("linear_decay", "version − decay · uses: newer groups first, and groups with fewer uses.",
		func() PriorityFunc { return &linearDecay{Decay: 2} })
}

// linearDecay makes one use of a group count as much as Decay train steps of age:
//
//	priority = version − decay · uses
//
// Every group is kept.
type linearDecay struct {
	Decay float64 `yaml:"decay" doc:"train steps of age that one use weighs as much as; 0 or more"`
}

// Validate returns an error for a decay that would prefer the most used groups.
func (d *linearDecay) Validate() error { return checkDecay(d.Decay) }

// Priority implements PriorityFunc.
func (d *linearDecay) Priority(r Replayed) (float64, bool) {
	return float64(r.Version) - d.Decay*float64(r.Uses), true
}

func checkDecay(decay float64) error {
	if !(decay >= 0) || math.IsInf(decay, 1) {
		return fmt.Errorf("decay is %v, must be a finite number, 0 or more", decay)
	}
	return nil
}
