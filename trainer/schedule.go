package trainer

import (
	"fmt"
	"math"
)

// Schedule is the learning rate over the steps of a run.
type Schedule struct {
	LR          float64 // peak
	MinRatio    float64 // of LR: where warm-up starts and cosine or linear ends
	WarmupSteps int64
	TotalSteps  int64
	Type        string // constant, cosine, linear
}

// At returns the learning rate of step (from 1): warm-up rises linearly from MinRatio·LR to LR; then constant stays, cosine and linear fall
// to MinRatio·LR at TotalSteps.
func (s Schedule) At(step int64) float64 {
	return s.LR * (s.MinRatio + (1-s.MinRatio)*s.shape(step))
}

func (s Schedule) shape(step int64) float64 {
	if step <= s.WarmupSteps {
		return float64(step) / float64(s.WarmupSteps)
	}
	progress := min(1, float64(step-s.WarmupSteps)/float64(max(1, s.TotalSteps-s.WarmupSteps)))
	switch s.Type {
	case "cosine":
		return 0.5 * (1 + math.Cos(math.Pi*progress))
	case "linear":
		return 1 - progress
	}
	return 1
}

// Validate refuses an unknown type.
func (s Schedule) Validate() error {
	switch s.Type {
	case "constant", "cosine", "linear":
		return nil
	}
	return fmt.Errorf("lr_scheduler_type %q: want constant, cosine or linear", s.Type)
}
