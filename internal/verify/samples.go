package verify

import (
	"context"
	"fmt"
	"math"
)

// SampleTest is a test of drawn tokens against the oracle's probabilities.
type SampleTest struct {
	Name      string  `json:"name"` // what was drawn, and how
	Draws     int     `json:"draws"`
	Prompts   int     `json:"prompts,omitempty"`
	Statistic float64 `json:"statistic"`         // χ², or z of the surprise
	Degrees   int     `json:"degrees,omitempty"` // of freedom of χ²
	Outside   int     `json:"outside,omitempty"` // draws outside of the nucleus
	P         float64 `json:"p"`                 // probability of a statistic at least as large if the other engine draws correctly
}

// MinDraws is the number of first tokens of one prompt and setting that its χ² test needs.
const MinDraws = 50

// maxOutside is the share of draws that rounding may put outside of a nucleus.
const maxOutside = 0.02

// testSamples tests every setting in which some prompt has enough draws, then the whole replies.
func (j *judge) testSamples(ctx context.Context) ([]SampleTest, error) {
	var tests []SampleTest
	var settings []*group
	for _, g := range j.groups { // they are sorted by setting
		if g.draws < MinDraws {
			continue
		}
		if last := len(settings) - 1; last < 0 || settings[last].temperature != g.temperature || (settings[last].topP < 1) != (g.topP < 1) {
			name := fmt.Sprintf("first token, temperature %g", g.temperature)
			if g.topP < 1 {
				name += ", nucleus"
			}
			tests = append(tests, SampleTest{Name: name})
			settings = append(settings, g)
		}
		if err := j.testGroup(ctx, g, &tests[len(tests)-1]); err != nil {
			return nil, err
		}
	}
	tested := tests[:0]
	for _, t := range tests {
		if t.conclude() {
			tested = append(tested, t)
		}
	}
	if t, ok := j.surprise.test(); ok {
		tested = append(tested, t)
	}
	return tested, nil
}

// testGroup adds the statistic of one prompt to the test of its setting.
func (j *judge) testGroup(ctx context.Context, g *group, out *SampleTest) error {
	return j.oracle.Distributions(ctx, g.prompt, len(g.prompt), func(_ int, logprobs []float32) error {
		statistic, degrees, outside := chiSquare(g.counts, j.merged(shaped(logprobs, g.temperature, g.topP)))
		out.Statistic += statistic
		out.Degrees += degrees
		out.Outside += outside
		out.Draws += g.draws
		out.Prompts++
		return nil
	})
}

// conclude computes p. It reports false if there was only one possible outcome, and all draws had
// it: then nothing was tested.
func (t *SampleTest) conclude() bool {
	t.P = chiSquareTail(t.Statistic, t.Degrees)
	switch {
	case float64(t.Outside) > maxOutside*float64(t.Draws):
		t.P = 0
	case t.Degrees == 0:
		return false
	}
	return true
}

// surpriseTest compares −log p of all drawn tokens with the entropies of their distributions. The
// differences have mean 0 after any prefix, so their sum divided by its standard deviation tends to
// a normal variable (central limit theorem for martingales).
type surpriseTest struct {
	sum, variance float64
	tokens        int
}

func (s *surpriseTest) add(p []float64, token int32) {
	mean, variance := surprise(p)
	s.sum += -math.Log(max(p[token], 1e-300)) - mean
	s.variance += variance
	s.tokens++
}

// test returns the result; ok is false if there are too few tokens for a nearly normal sum.
func (s *surpriseTest) test() (result SampleTest, ok bool) {
	if s.tokens < 4*MinDraws || s.variance < 1 {
		return SampleTest{}, false
	}
	z := s.sum / math.Sqrt(s.variance)
	return SampleTest{Name: "surprise of whole replies", Draws: s.tokens, Statistic: z, P: normalTail(z)}, true
}
