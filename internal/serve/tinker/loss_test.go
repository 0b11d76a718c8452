package tinker

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// testdata/record_losses.py records the losses and derivatives of PyTorch.
func TestLosses(t *testing.T) {
	data, err := os.ReadFile("testdata/losses.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Loss   string `json:"loss_fn"`
		Config map[string]float64
		Data   []struct {
			Logprob []float32
			Inputs  map[string][]float32
			Loss    float64
			Grad    []float64
		}
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range cases {
		seen[c.Loss] = true
		l, err := newLoss(c.Loss, c.Config)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		b, now := &trinity.Batch{}, []trinity.TokenStats{}
		for _, d := range c.Data {
			e := &trinity.Experience{Tokens: make([]int32, len(d.Logprob)+1)}
			if err := l.add(e, 1, d.Inputs); err != nil {
				t.Fatal(err)
			}
			b.Experiences = append(b.Experiences, e)
			now = append(now, trinity.TokenStats{Logprob: append([]float32{0}, d.Logprob...)})
			sum += d.Loss
		}
		grads, metrics, err := l.compute(b, now)
		if err != nil {
			t.Fatal(err)
		}
		if off := math.Abs(metrics["loss"]-sum) / math.Abs(sum); off > 1e-6 {
			t.Errorf("%s %v: loss %v, want %v", c.Loss, c.Config, metrics["loss"], sum)
		}
		for i, d := range c.Data {
			for j, want := range d.Grad {
				if got := float64(grads[i].Logprob[j+1]); math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
					t.Errorf("%s %v: datum %d, token %d: derivative %v, want %v", c.Loss, c.Config, i, j, got, want)
				}
			}
		}
	}
	if len(seen) != len(formulas) {
		t.Errorf("%d losses are recorded of %d", len(seen), len(formulas))
	}
}

func TestLossesRefuse(t *testing.T) {
	type refused struct {
		loss   string
		config map[string]float64
	}
	for want, c := range map[string]refused{
		`loss_fn "stable_reinforce" is not in this version: pass loss_fn= one of cispo, cross_entropy,`: {"stable_reinforce", nil},
		`loss_fn_config: ppo has no "beta": it has clip_high_threshold, clip_low_threshold`:             {"ppo", map[string]float64{"beta": 1}},
		`loss_fn_config: trinity_ppo needs num_total_datums`:                                            {"trinity_ppo", nil},
		`loss_fn_config: beta of dro is +Inf: want a finite number`: {
			"dro", map[string]float64{"beta": math.Inf(1)}},
	} {
		if _, err := newLoss(c.loss, c.config); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	two := []float32{1, 2}
	for want, c := range map[string]struct {
		loss   string
		inputs map[string][]float32
	}{
		"loss_fn_inputs lacks weights":                                            {"cross_entropy", nil},
		"loss_fn_inputs: weights has 1 numbers: want 2, as many as target_tokens": {"cross_entropy", map[string][]float32{"weights": {1}}},
		"loss_fn_inputs: weights is NaN at token 1: want a finite number": {
			"cross_entropy", map[string][]float32{"weights": {1, float32(math.NaN())}}},
		`loss_fn_inputs has "mask", which this loss does not read: it reads target_tokens, logprobs, advantages`: {
			"ppo", map[string][]float32{"logprobs": two, "advantages": two, "mask": two}},
		"loss_fn_inputs lacks ref_logprobs: kl_coef is 0.001": {
			"trinity_ppo", map[string][]float32{"logprobs": two, "advantages": two, "mask": two}},
		"loss_fn_inputs lacks mask, or weights": {
			"trinity_ppo", map[string][]float32{"logprobs": two, "advantages": two, "ref_logprobs": two}},
	} {
		l, err := newLoss(c.loss, map[string]map[string]float64{"trinity_ppo": {"num_total_datums": 1}}[c.loss])
		if err != nil {
			t.Fatal(err)
		}
		if err := l.add(&trinity.Experience{Tokens: make([]int32, 3)}, 1, c.inputs); err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
