package algorithm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// rolled returns a sequence of a prompt token and trained tokens with these ratios trainer /
// sampler. A ratio of 0 is an untrained token.
func rolled(ratios ...float64) *trinity.Experience {
	n := len(ratios) + 1
	e := &trinity.Experience{Tokens: make([]int32, n), Mask: make([]bool, n), PromptLen: 1, Logprobs: make([]float32, n),
		StepStreams: trinity.StepStreams{OldLogprobs: make([]float32, n)}}
	for i, r := range ratios {
		if r > 0 {
			e.Mask[i+1], e.Logprobs[i+1], e.OldLogprobs[i+1] = true, -2, float32(-2+math.Log(r))
		}
	}
	return e
}

// weightsOf returns the weights of the trained tokens before rejection, 1 for tokens without a
// weight.
func weightsOf(batch []*trinity.Experience) (w []float64, masks string) {
	for _, e := range batch {
		for t := 1; t < len(e.Tokens); t++ {
			if e.PolicyWeights != nil {
				w = append(w, math.Round(1e4*float64(e.PolicyWeights[t]))/1e4)
			}
			masks += map[bool]string{true: "1", false: "0"}[e.Mask[t]]
		}
	}
	return w, masks
}

// The sequences have the ratios 2, 0.5, 4 (product 4, geometric mean 1.5874) and, after a token of
// the environment, 0.8, 0.9 (0.72, 0.8485).
func TestCorrectionEqualsValuesByHand(t *testing.T) {
	for _, c := range []struct {
		name    string
		c       Correction
		weights []float64 // the environment's token has 0
		masks   string
		metrics map[string]float64
	}{
		{"nothing: statistics alone", Correction{Truncate: 3}, nil, "111011", map[string]float64{
			"rollout_is_mean": 8.2 / 5, "rollout_is_max": 4, "rollout_is_min": 0.5, "rollout_is_ratio_fraction_high": 0.2,
			"rollout_is_eff_sample_size": 7.2 * 7.2 / (5 * (4 + 0.25 + 9 + 0.64 + 0.81)),
			"kl":                         -math.Log(2*0.5*4*0.8*0.9) / 5, "k3_kl": (8.2-5)/5 - math.Log(2*0.5*4*0.8*0.9)/5}},
		{"tokens, truncated", Correction{Weights: "token", Truncate: 3}, []float64{2, 0.5, 3, 0, 0.8, 0.9}, "111011",
			map[string]float64{"rollout_is_max": 4}},
		{"tokens, normalised: mean 1.44", Correction{Weights: "token", Truncate: 3, Normalize: true},
			[]float64{1.3889, 0.3472, 2.0833, 0, 0.5556, 0.625}, "111011",
			map[string]float64{"rollout_is_batch_norm_factor": 1.44}},
		{"sequences", Correction{Weights: "sequence", Truncate: 5}, []float64{4, 4, 4, 0, 0.72, 0.72}, "111011", map[string]float64{
			"rollout_is_mean": (3*4 + 2*0.72) / 5, "rollout_is_ratio_fraction_high": 0}},
		{"sequences, truncated", Correction{Weights: "sequence", Truncate: 2}, []float64{2, 2, 2, 0, 0.72, 0.72}, "111011",
			map[string]float64{"rollout_is_ratio_fraction_high": 0.5}},
		{"sequences, normalised over sequences: mean 1.36", Correction{Weights: "sequence", Truncate: 2, Normalize: true},
			[]float64{1.4706, 1.4706, 1.4706, 0, 0.5294, 0.5294}, "111011", map[string]float64{"rollout_is_batch_norm_factor": 1.36}},
		{"reject tokens", Correction{Reject: "token", Low: 0.85, High: 2.5}, nil, "100001", map[string]float64{
			"rollout_rs_masked_fraction": 0.6, "rollout_rs_seq_masked_fraction": 1}},
		{"reject sequences", Correction{Reject: "sequence", Low: 0.5, High: 2}, nil, "000011", map[string]float64{
			"rollout_rs_masked_fraction": 0.6, "rollout_rs_seq_masked_fraction": 0.5}},
		{"reject by the geometric mean, from below", Correction{Reject: "geometric", Low: 0.9, High: 1.6}, nil, "111000", map[string]float64{
			"rollout_rs_masked_fraction": 0.4, "rollout_rs_seq_masked_fraction": 0.5}},
		{"weights and rejection", Correction{Weights: "token", Truncate: 3, Reject: "token", Low: 0.1, High: 3.5},
			[]float64{2, 0.5, 3, 0, 0.8, 0.9}, "110011",
			map[string]float64{"rollout_rs_masked_fraction": 0.2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			batch := []*trinity.Experience{rolled(2, 0.5, 4), rolled(0, 0.8, 0.9)}
			out, m, err := c.c.Apply(batch)
			if err != nil {
				t.Fatal(err)
			}
			weights, masks := weightsOf(out)
			if !slices.Equal(weights, c.weights) || masks != c.masks {
				t.Errorf("weights %v, masks %s; want %v, %s", weights, masks, c.weights, c.masks)
			}
			for name, want := range c.metrics {
				if got, ok := m["rollout_corr/"+name]; !ok || math.Abs(got-want) > 1e-6 {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
			if _, before := weightsOf(batch); before != "111011" || batch[0].PolicyWeights != nil {
				t.Error("the batch itself was changed")
			}
		})
	}
}

func TestCorrectionHandlesOddBatches(t *testing.T) {
	c := Correction{Weights: "token", Truncate: 2, Reject: "sequence", Low: 0.5, High: 2}
	if out, m, err := c.Apply([]*trinity.Experience{rolled(5), rolled(0)}); err != nil || out != nil ||
		m["rollout_corr/rollout_rs_masked_fraction"] != 1 {
		t.Errorf("all rejected: %d left, %v, %v", len(out), m, err)
	}
	expert := rolled(9, 9)
	expert.IsExpert, expert.Logprobs = true, nil
	out, m, err := c.Apply([]*trinity.Experience{expert, rolled(1, 1), rolled(math.Exp(50))})
	if err != nil {
		t.Fatal(err)
	}
	if weights, masks := weightsOf(out); fmt.Sprint(weights) != "[1 1 2]" || masks != "11110" {
		t.Errorf("beside a demonstration: %v, %s", weights, masks)
	}
	if got := m["rollout_corr/rollout_rs_masked_fraction"]; got != 1.0/3 {
		t.Errorf("share masked %v, want a third: a demonstration cannot be rejected", got)
	}
	far := rolled(1)
	far.Logprobs[1] = -1000
	if _, m, err := (&Correction{Weights: "sequence", Truncate: 2}).Apply([]*trinity.Experience{far}); err != nil ||
		m["rollout_corr/rollout_is_max"] != math.Exp(20) {
		t.Errorf("1000 nats apart: %v, %v", m, err)
	}
	unknown := rolled(1)
	unknown.Logprobs = nil
	if _, _, err := c.Apply([]*trinity.Experience{unknown}); err == nil || !strings.Contains(err.Error(), "has no log-probabilities") {
		t.Error(err)
	}
}
