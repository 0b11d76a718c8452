package advantage

import (
	"errors"
	"fmt"
	"math"
)

// scaling holds what advantage functions share that normalise the outcomes of a group by its mean
// and a standard deviation.
type scaling struct {
	Epsilon      float64  `yaml:"epsilon" doc:"added to the standard deviation"`
	StdThreshold *float64 `yaml:"std_threshold" doc:"drop groups whose reward std is at most this, and groups of one; null keeps all"`
	StdCalLevel  string   `yaml:"std_cal_level" doc:"divide by the std of the rewards of the group or the batch; none does not divide"`
}

func newScaling() scaling { return scaling{Epsilon: 1e-6, StdCalLevel: "group"} }

// Validate checks ranges.
func (s *scaling) Validate() error {
	switch {
	case s.StdThreshold != nil && (!(*s.StdThreshold >= 0) || math.IsInf(*s.StdThreshold, 0)):
		return errors.New("std_threshold must be finite and not negative: an infinite one drops every group")
	case s.StdCalLevel != "group" && s.StdCalLevel != "batch" && s.StdCalLevel != "none":
		return fmt.Errorf("std_cal_level: unknown level %q (known: group, batch, none)", s.StdCalLevel)
	}
	return checkEpsilon(s.Epsilon)
}

// checkEpsilon refuses an epsilon that does not keep a divisor above 0.
func checkEpsilon(epsilon float64) error {
	if !(epsilon > 0) || math.IsInf(epsilon, 0) {
		return errors.New("epsilon must be finite and more than 0: a group of equal rewards has std 0, and an infinite divisor " +
			"makes every advantage 0")
	}
	return nil
}

// drops reports whether std_threshold drops a group. The std of one outcome is 0.
func (s *scaling) drops(outcomes []float64) bool {
	return s.StdThreshold != nil && sampleStd(outcomes) <= *s.StdThreshold
}

// scores returns the normalised outcomes of a group. batchStd is unitStd of the outcomes of the
// batch. A single outcome has mean 0 and std 1.
func (s *scaling) scores(outcomes []float64, batchStd float64) []float64 {
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
