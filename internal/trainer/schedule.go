package trainer

import (
	"fmt"
	"math"
)

// Schedule is the learning rate over the steps of a run.
//
//	lr(step) = LR·(m + (1 − m)·f(step)),  m = MinRatio,  W = WarmupSteps,  N = TotalSteps
//
//	warm-up   f = step / W                     up to step W
//	constant  f = 1
//	cosine    f = (1 + cos(π·x)) / 2           x = (step − W) / (N − W)   (Loshchilov & Hutter 2017, without restarts)
//	linear    f = 1 − x
//	wsd       f = 1, then (N − step) / (N − S) from step S = max(W, N − DecayRatio·N) on: warm-up, stable, decay (Hu et al. 2024)
//
// Warm-up begins just above m·LR, step W has LR, and step N and all later steps have m·LR. These
// are the formulas of Trinity-RFT's trainer for Tinker. veRL warms up from 0 and counts steps from
// 0: its first step changes nothing, and its last step is not at the minimum. In Hu et al. the
// decaying rate halves again and again. Here it falls in a line, which ends at m·LR for every
// DecayRatio.
type Schedule struct {
	LR          float64 // peak
	MinRatio    float64 // of LR: warm-up starts there; cosine, linear and wsd end there
	WarmupSteps int64
	DecayRatio  float64 // of TotalSteps: the share of steps at the end in which wsd decays
	TotalSteps  int64
	Type        string // constant, cosine, linear, wsd
}

// At returns the learning rate of step, counted from 1.
func (s Schedule) At(step int64) float64 {
	return s.LR * (s.MinRatio + (1-s.MinRatio)*s.shape(step))
}

func (s Schedule) shape(step int64) float64 {
	if step <= s.WarmupSteps {
		return float64(step) / float64(s.WarmupSteps)
	}
	switch s.Type {
	case "cosine":
		return 0.5 * (1 + math.Cos(math.Pi*s.progress(step, s.WarmupSteps)))
	case "linear":
		return 1 - s.progress(step, s.WarmupSteps)
	case "wsd":
		decay := int64(math.Round(s.DecayRatio * float64(s.TotalSteps)))
		return 1 - s.progress(step, max(s.WarmupSteps, s.TotalSteps-decay))
	}
	return 1
}

// progress returns the share of the way from step from to TotalSteps that lies behind step: 0 up to
// from, 1 from TotalSteps on.
func (s Schedule) progress(step, from int64) float64 {
	return max(0, min(1, float64(step-from)/float64(max(1, s.TotalSteps-from))))
}

// Validate returns an error if the type is unknown, or if it needs the number of steps and
// TotalSteps is 0.
func (s Schedule) Validate() error {
	switch s.Type {
	case "constant":
		return nil
	case "cosine", "linear", "wsd":
		if s.TotalSteps <= 0 {
			return fmt.Errorf("lr_scheduler_type %s: the rate falls over the whole run, and the number of steps is unknown: set total_steps", s.Type)
		}
		return nil
	}
	return fmt.Errorf("lr_scheduler_type %q: want constant, cosine, linear or wsd", s.Type)
}
