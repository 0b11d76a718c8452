package advantage

// scaling holds what advantage functions share that normalise the outcomes of a group by its mean
// and a standard deviation.
type scaling struct {
	Epsilon      float64  `yaml:"epsilon" range:"(0,)" doc:"added to the standard deviation, which is 0 if all rewards are equal"`
	StdThreshold *float64 `yaml:"std_threshold" range:"[0,)" doc:"drop groups whose reward std is at most this, or of one; null keeps all"`
	StdCalLevel  string   `yaml:"std_cal_level" enum:"group|batch|none" doc:"whose standard deviation of rewards divides the advantage"`
}

func newScaling() scaling { return scaling{Epsilon: 1e-6, StdCalLevel: "group"} }

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
