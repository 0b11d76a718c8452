package explorer

import "math"

// Pace is the one rule of synchronization: which version of the weights a step samples with. The styles are Trinity-RFT's.
//
//	fixed            the version of Interval, as the trainer made it Offset steps before: a run depends on its seeds alone
//	explorer_driven  the newest, looked for every Interval steps
//	trainer_driven   the newest, looked for at every step
//	fully_async      the newest at any moment, in the middle of a step too
//
// In the last three nobody waits, but for a version that MaxStaleness asks for.
type Pace struct {
	Style    string
	Interval int64 // explore steps
	Offset   int64 // explore steps that the explorer may be ahead; of fixed alone

	// MaxStaleness bounds the train steps between the weights that sampled and those that come of it, as staleness_control counts them: a step is not
	// begun before a version is there that will not be too old when the trainer comes to it. +Inf bounds nothing. Of all but fixed.
	MaxStaleness float64
	PerStep      int64 // experiences of an explore step
	PerBatch     int64 // experiences that a train step takes of them
}

// Required is the oldest version that step may sample with. Of fixed: the versions 0, interval, 2·interval … come into use offset steps after the
// trainer made them.
func (p *Pace) Required(step int64) int64 {
	if p.Style == "fixed" {
		return max(0, step-1-p.Offset) / p.Interval * p.Interval
	}
	if math.IsInf(p.MaxStaleness, 1) {
		return 0
	}
	trained := (step*p.PerStep + p.PerBatch - 1) / p.PerBatch // the train step that takes the last of them
	return max(0, trained-int64(p.MaxStaleness))
}

// restsOn is the last of the explorer's own steps that the version which step requires is made of, if no rollout of them fails.
func (p *Pace) restsOn(step int64) int64 {
	switch need := p.Required(step); {
	case p.Style == "fixed":
		return step - 1
	case need == 0:
		return 0
	default:
		return min(step-1, (need*p.PerBatch+p.PerStep-1)/p.PerStep)
	}
}

// Newest reports whether step begins with the newest version that there is.
func (p *Pace) Newest(step int64) bool {
	switch p.Style {
	case "fixed":
		return false
	case "explorer_driven":
		return (step-1)%p.Interval == 0
	}
	return true
}
