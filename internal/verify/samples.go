package verify

import (
	"context"
	"fmt"
	"math"
)

// SampleTest is a test of drawn tokens against the oracle's probabilities.
type SampleTest struct {
	Name      string  `json:"name"` // what was drawn, and how it was tested
	Draws     int     `json:"draws"`
	Prompts   int     `json:"prompts,omitempty"`
	Statistic float64 `json:"statistic"`         // χ², or z of the surprise
	Degrees   int     `json:"degrees,omitempty"` // of freedom of χ²
	Outside   int     `json:"outside,omitempty"` // draws that the nucleus should have left out
	P         float64 `json:"p"`                 // chance of a statistic at least as large, if the other engine draws as it should
}

// MinDraws is how many first tokens of one prompt and setting a χ² test of it wants.
const MinDraws = 50

const (
	maxOutside = 0.02 // share of draws at the edge of a nucleus that rounding may put in or out
)

// testSamples tests every setting of which some prompt was drawn often enough, then whole replies.
func (j *judge) testSamples(ctx context.Context) ([]SampleTest, error) {
	var tests []SampleTest
	var settings []*group
	for _, g := range j.groups { // ordered by setting
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

// testGroup adds the statistic of one prompt to that of its setting.
func (j *judge) testGroup(ctx context.Context, g *group, to *SampleTest) error {
	return j.oracle.Distributions(ctx, g.prompt, len(g.prompt), func(_ int, logprobs []float32) error {
		statistic, degrees, outside := chiSquare(g.counts, j.merged(shaped(logprobs, g.temperature, g.topP)))
		to.Statistic += statistic
		to.Degrees += degrees
		to.Outside += outside
		to.Draws += g.draws
		to.Prompts++
		return nil
	})
}

// conclude computes p; false when everything had one outcome, which tests nothing, as it should have.
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

// surpriseTest holds the −log p of all drawn tokens against the entropies of the distributions that they were drawn from: their differences have
// mean 0 whatever came before, so their sum over its standard deviation tends to a normal variable (a martingale's central limit).
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

// test wants as many tokens as make the sum nearly normal.
func (s *surpriseTest) test() (SampleTest, bool) {
	if s.tokens < 4*MinDraws || s.variance < 1 {
		return SampleTest{}, false
	}
	z := s.sum / math.Sqrt(s.variance)
	return SampleTest{Name: "surprise of whole replies", Draws: s.tokens, Statistic: z, P: normalTail(z)}, true
}
