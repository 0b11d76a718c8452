package advantage

import (
	"errors"
	"fmt"
	"math"
)

// Scaling is what the advantage functions have in common that normalise the outcomes of a group by its mean and a standard deviation.
type Scaling struct {
	Epsilon      float64  `yaml:"epsilon" doc:"added to the standard deviation"`
	StdThreshold *float64 `yaml:"std_threshold" doc:"drop groups whose reward std is at most this, and groups of one; null keeps all"`
	StdCalLevel  string   `yaml:"std_cal_level" doc:"std of the group's rewards (group), of all rewards of the batch (batch), or no division (none)"`
}

func newScaling() Scaling { return Scaling{Epsilon: 1e-6, StdCalLevel: "group"} }

// Validate checks ranges.
func (s *Scaling) Validate() error {
	switch {
	case s.StdThreshold != nil && (!(*s.StdThreshold >= 0) || math.IsInf(*s.StdThreshold, 0)):
		return errors.New("std_threshold must not be negative, and finite: it drops every group otherwise")
	case s.StdCalLevel != "group" && s.StdCalLevel != "batch" && s.StdCalLevel != "none":
		return fmt.Errorf("std_cal_level: unknown level %q (known: group, batch, none)", s.StdCalLevel)
	}
	return checkEpsilon(s.Epsilon)
}

// checkEpsilon refuses what a standard deviation of 0 cannot be replaced by.
func checkEpsilon(epsilon float64) error {
	if !(epsilon > 0) || math.IsInf(epsilon, 0) {
		return errors.New("epsilon must be more than 0, and finite: a group of equal rewards has std 0, and no reward counts over an infinite one")
	}
	return nil
}

// drops reports whether a group teaches too little: the std of one outcome is 0.
func (s *Scaling) drops(outcomes []float64) bool {
	return s.StdThreshold != nil && sampleStd(outcomes) <= *s.StdThreshold
}

// scores are the outcomes of a group, normalised; batchStd is unitStd of those of the batch. One alone has mean 0 and std 1.
func (s *Scaling) scores(outcomes []float64, batchStd float64) []float64 {
	center, scale := mean(outcomes), sampleStd(outcomes)
	if len(outcomes) == 1 {
		center, scale = 0, 1
	}
	scale += s.Epsilon
	switch s.StdCalLevel {
	case "batch":
		scale = batchStd + s.Epsilon
	case "none":
		scale = 1
	}
	out := minus(outcomes, center)
	for i := range out {
		out[i] /= scale
	}
	return out
}
