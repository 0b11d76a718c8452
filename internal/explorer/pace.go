package explorer

import "math"

// Pace is the one rule of synchronization: it says which version of the weights a step samples
// with. The styles are Trinity-RFT's.
//
//	fixed            a new version every Interval steps, Offset steps after the trainer made it;
//	                 a run depends on its seeds alone
//	explorer_driven  the newest version; the explorer looks for it every Interval steps
//	trainer_driven   the newest version; the explorer looks for it at every step
//	fully_async      the newest version at any moment, in the middle of a step too
//
// In the last three styles the explorer waits only for a version that MaxStaleness requires.
type Pace struct {
	Style    string
	Interval int64 // explore steps
	Offset   int64 // explore steps that the explorer may be ahead; style fixed alone reads it

	// MaxStaleness bounds the train steps between the weights that sample an experience and the
	// weights that the trainer makes of it, as staleness_control counts them. A step does not begin
	// before there is a version that will still be new enough when the trainer takes the step's
	// experiences. +Inf is no bound. Style fixed does not read it.
	MaxStaleness float64
	PerStep      int64 // experiences that an explore step gives
	PerBatch     int64 // experiences that a train step takes
}

// Required returns the oldest version that step may sample with. In style fixed the versions 0,
// Interval, 2·Interval … come into use Offset steps after the trainer made them.
func (p *Pace) Required(step int64) int64 {
	if p.Style == "fixed" {
		return max(0, step-1-p.Offset) / p.Interval * p.Interval
	}
	if math.IsInf(p.MaxStaleness, 1) {
		return 0
	}
	trained := (step*p.PerStep + p.PerBatch - 1) / p.PerBatch // the train step that takes the last experience of step
	return max(0, trained-int64(p.MaxStaleness))
}

// restsOn returns the last explore step whose experiences the trainer needs for the version that
// step requires, if no rollout fails.
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

// Newest reports whether step begins with the newest version.
func (p *Pace) Newest(step int64) bool {
	switch p.Style {
	case "fixed":
		return false
	case "explorer_driven":
		return (step-1)%p.Interval == 0
	}
	return true
}
