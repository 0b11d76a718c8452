package model

import (
	"fmt"
	"math"
	"slices"
)

// InverseFrequencies returns the RoPE angle per position, in radians, of each of the rotated pairs,
// and the factor on cos and sin (1 unless the scaling is yarn or longrope). seqLen is the number of
// tokens in the longest sequence; only "dynamic" scaling depends on it.
//
// Sources: Su et al. 2021 (RoPE); "linear" is position interpolation, Chen et al. 2023; "yarn" is
// Peng et al. 2023; "longrope" is Ding et al. 2024; "dynamic" (NTK-aware) and "llama3" follow
// transformers, whose models define them.
func (c *Config) InverseFrequencies(seqLen int) (invFreq []float64, attentionScale float64) {
	s := c.RopeScaling
	if s == nil {
		return c.plainFrequencies(c.RopeTheta), 1
	}
	switch s.Type {
	case "dynamic":
		return c.plainFrequencies(s.dynamicTheta(c, seqLen)), 1
	case "yarn":
		return s.yarn(c), s.yarnAttention()
	case "longrope":
		return s.longRope(c), s.longAttention()
	}
	invFreq = c.plainFrequencies(c.RopeTheta)
	for i, f := range invFreq {
		if s.Type == "linear" {
			invFreq[i] = f / s.Factor
		} else {
			invFreq[i] = s.llama3(f)
		}
	}
	return invFreq, 1
}

// rotated returns the number of elements of a head that RoPE rotates.
func (c *Config) rotated() int {
	if c.RotaryDim == 0 {
		return c.HeadDim
	}
	return c.RotaryDim
}

// plainFrequencies returns theta^(−2i/n) for each pair i of n rotated elements.
func (c *Config) plainFrequencies(theta float64) []float64 {
	n := c.rotated()
	invFreq := make([]float64, n/2)
	for i := range invFreq {
		invFreq[i] = math.Pow(theta, -float64(2*i)/float64(n))
	}
	return invFreq
}

// Reach returns the number of tokens of the longest sequence that InverseFrequencies is right for. A
// longrope model has other frequencies beyond its original context.
func (s *RopeScaling) Reach() int {
	if s != nil && s.Type == "longrope" {
		return s.OriginalMaxPositions
	}
	return math.MaxInt
}

// QueryScale returns the factor on the queries at a position, counted from 0.
func (s *RopeScaling) QueryScale(position int) float32 {
	if s == nil || s.QueryBeta == 0 {
		return 1
	}
	return float32(1 + s.QueryBeta*math.Log(1+math.Floor(float64(position)/float64(s.OriginalMaxPositions))))
}

// dynamicTheta raises the base only for sequences longer than those that the model was trained on.
func (s *RopeScaling) dynamicTheta(c *Config, seqLen int) float64 {
	length := float64(max(seqLen, c.MaxPositions))
	dim := float64(c.rotated())
	stretch := s.Factor*length/float64(c.MaxPositions) - (s.Factor - 1)
	return c.RopeTheta * math.Pow(stretch, dim/(dim-2))
}

// llama3 keeps high frequencies, divides low ones by Factor, and blends in between.
func (s *RopeScaling) llama3(f float64) float64 {
	rotations := float64(s.OriginalMaxPositions) * f / (2 * math.Pi)
	switch {
	case rotations > s.HighFreqFactor:
		return f
	case rotations < s.LowFreqFactor:
		return f / s.Factor
	}
	smooth := (rotations - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
	return (1-smooth)*f/s.Factor + smooth*f
}

// yarn interpolates slow dimensions, keeps fast ones, with a linear ramp between.
func (s *RopeScaling) yarn(c *Config) []float64 {
	low, high := s.correction(c, s.BetaFast), s.correction(c, s.BetaSlow)
	if !s.KeepFraction {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(c.rotated()-1))
	if low == high {
		high += 0.001
	}
	invFreq := c.plainFrequencies(c.RopeTheta)
	for i, f := range invFreq {
		ramp := min(max((float64(i)-low)/(high-low), 0), 1)
		invFreq[i] = f/s.Factor*ramp + f*(1-ramp)
	}
	return invFreq
}

// correction returns the dimension that rotates the given number of times over the original
// context.
func (s *RopeScaling) correction(c *Config, rotations float64) float64 {
	return float64(c.rotated()) * math.Log(float64(s.OriginalMaxPositions)/(rotations*2*math.Pi)) / (2 * math.Log(c.RopeTheta))
}

// longRope divides each frequency by its short factor.
func (s *RopeScaling) longRope(c *Config) []float64 {
	invFreq := c.plainFrequencies(c.RopeTheta)
	for i := range invFreq {
		invFreq[i] /= s.ShortFactors[i]
	}
	return invFreq
}

func (s *RopeScaling) longAttention() float64 {
	switch {
	case s.AttentionFactor != 0:
		return s.AttentionFactor
	case s.Factor <= 1:
		return 1
	}
	return math.Sqrt(1 + math.Log(s.Factor)/math.Log(float64(s.OriginalMaxPositions)))
}

func (s *RopeScaling) yarnAttention() float64 {
	scale := func(m float64) float64 {
		if s.Factor <= 1 {
			return 1
		}
		return 0.1*m*math.Log(s.Factor) + 1
	}
	switch {
	case s.AttentionFactor != 0:
		return s.AttentionFactor
	case s.MScale != 0 && s.MScaleAllDim != 0:
		return scale(s.MScale) / scale(s.MScaleAllDim)
	}
	return scale(1)
}

// check takes the number of rotated elements of a head.
func (s *RopeScaling) check(rotated int) error {
	var errs []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("rope_scaling: "+format, args...))
		}
	}
	demand(s.Factor >= 1 && s.Factor < 1e9, "factor is %v; expected 1 or more", s.Factor)
	switch s.Type {
	case "linear":
	case "dynamic":
		demand(rotated > 2, "type dynamic needs a head_dim above 2")
	case "llama3":
		demand(s.LowFreqFactor > 0 && s.HighFreqFactor > s.LowFreqFactor,
			"low_freq_factor %v, high_freq_factor %v; expected 0 < low < high", s.LowFreqFactor, s.HighFreqFactor)
		demand(s.OriginalMaxPositions > 0, "original_max_position_embeddings is %d; expected a positive number", s.OriginalMaxPositions)
	case "yarn":
		demand(s.BetaSlow > 0 && s.BetaFast >= s.BetaSlow, "beta_fast %v, beta_slow %v; expected fast ≥ slow > 0", s.BetaFast, s.BetaSlow)
		demand(s.AttentionFactor >= 0, "attention_factor is %v; expected a positive number", s.AttentionFactor)
		for key, m := range map[string]float64{"mscale": s.MScale, "mscale_all_dim": s.MScaleAllDim} {
			demand(m >= 0 && m <= largestFactor, "%s is %v; expected 0 to %g", key, m, largestFactor)
		}
		demand(s.OriginalMaxPositions > 0, "original_max_position_embeddings is %d; expected a positive number", s.OriginalMaxPositions)
	case "longrope":
		demandFactors := func(key string, factors []float64) {
			demand(len(factors) == rotated/2, "%s has %d numbers; expected %d, one for each rotated pair", key, len(factors), rotated/2)
			demand(!slices.ContainsFunc(factors, func(f float64) bool { return !(f > 0) }), "%s has numbers of 0 or less", key)
		}
		demandFactors("short_factor", s.ShortFactors)
		demandFactors("long_factor", s.LongFactors)
		demand(s.AttentionFactor >= 0, "attention_factor is %v; expected a positive number", s.AttentionFactor)
		demand(s.OriginalMaxPositions > 1, "original_max_position_embeddings is %d; expected a number above 1", s.OriginalMaxPositions)
	default:
		demand(false, "type %q is unknown; known are default, linear, dynamic, llama3, yarn, longrope", s.Type)
	}
	demand(s.QueryBeta >= 0 && s.QueryBeta <= largestFactor, "llama_4_scaling_beta is %v; expected 0 to %g", s.QueryBeta, largestFactor)
	demand(s.QueryBeta == 0 || s.OriginalMaxPositions > 0, "llama_4_scaling_beta needs original_max_position_embeddings")
	return together(errs)
}
