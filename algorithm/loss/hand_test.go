package loss

import (
	"fmt"
	"math"
	"testing"

	"github.com/trinity-go/trinity"
)

// seq returns a sequence of one prompt token and the given trained tokens.
func seq(adv float32, old, ref []float32) *trinity.Experience {
	n := len(old)
	e := &trinity.Experience{
		Tokens: make([]int32, n+1), Mask: make([]bool, n+1), PromptLen: 1,
		Logprobs: append([]float32{0}, old...), RefLogprobs: append([]float32{0}, ref...), Advantages: make([]float32, n+1),
	}
	for t := 1; t <= n; t++ {
		e.Mask[t], e.Advantages[t] = true, adv
	}
	return e
}

// at returns the engine's streams for trained tokens with these log-probabilities.
func at(lp ...float32) trinity.TokenStats {
	return trinity.TokenStats{Logprob: append([]float32{0}, lp...), Entropy: make([]float32, len(lp)+1)}
}

func whole(batch ...*trinity.Experience) *trinity.Batch {
	return &trinity.Batch{Experiences: batch, Whole: batch}
}

func mustPolicy(t *testing.T, name string, args map[string]any) PolicyLoss {
	t.Helper()
	p, err := PolicyLosses.Build(name, args)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// One token with the ratio r visits every side of the clips. The test checks loss and
// d(loss)/d(lp).
func TestPPOEqualsValuesByHand(t *testing.T) {
	ln := func(r float64) float32 { return float32(math.Log(r)) }
	for _, c := range []struct {
		name      string
		args      map[string]any
		adv       float32
		ratio     float64
		loss      float64
		grad      float64
		clipped   float64
		dualClips float64
	}{
		{"good token, on policy", nil, 2, 1, -2, -2, 0, 0},
		{"bad token, on policy", nil, -2, 1, 2, 2, 0, 0},
		{"good token, inside", nil, 2, 1.1, -2.2, -2.2, 0, 0},
		{"good token, too likely already: no push", nil, 2, 1.5, -2.4, 0, 1, 0},
		{"good token, became unlikely: full push back", nil, 2, 0.5, -1, -1, 0, 0},
		{"bad token, too unlikely already: no push", nil, -2, 0.5, 1.6, 0, 1, 0},
		{"bad token, became likely: full push down", nil, -2, 1.5, 3, 3, 0, 0},
		{"bad token, beyond the dual clip: no push", nil, -2, 4, 6, 0, 0, 1},
		{"good token beyond the dual clip's ratio is clipped above", nil, 2, 4, -2.4, 0, 1, 0},
		{"dual clip at 1.4", map[string]any{"clip_ratio_c": 1.4}, -2, 1.5, 2.8, 0, 0, 1},
		{"clip_range 0.6", map[string]any{"clip_range": 0.6}, 2, 1.5, -3, -3, 0, 0},
		{"clip_range_high 0.6 leaves clip_range below", map[string]any{"clip_range_high": 0.6}, 2, 1.5, -3, -3, 0, 0},
		{"clip_range_high is not for the lower side", map[string]any{"clip_range_high": 0.6}, -2, 0.5, 1.6, 0, 1, 0},
		{"clip_range_low 0.6", map[string]any{"clip_range_low": 0.6}, -2, 0.5, 1, 1, 0, 0},
		{"clip_range_low is not for the upper side", map[string]any{"clip_range_low": 0.6}, 2, 1.5, -2.4, 0, 1, 0},
		{"fallback: ratio 1 whatever was recorded", map[string]any{"fallback_to_policy_gradient": true}, 2, 1.5, -2, -2, 0, 0},
		{"fallback for a bad token", map[string]any{"fallback_to_policy_gradient": true}, -2, 0.1, 2, 2, 0, 0},
		{"advantage 0", nil, 0, 1.5, 0, 0, 0, 0},
		{"ratio beyond e^20", nil, 2, math.Exp(25), -2.4, 0, 1, 0},
	} {
		e := seq(c.adv, []float32{-30}, []float32{0})
		now := []trinity.TokenStats{at(-30 + ln(c.ratio))}
		grads, m, err := NewComposite(mustPolicy(t, "ppo", c.args), nil, &noEntropy{}).Loss(whole(e), now)
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string][2]float64{
			"pg_loss": {m["pg_loss"], c.loss}, "final_loss": {m["final_loss"], c.loss}, "gradient": {float64(grads[0].Logprob[1]), c.grad},
			"pg_clipfrac": {m["pg_clipfrac"], c.clipped}, "pg_clipfrac_lower": {m["pg_clipfrac_lower"], c.dualClips},
		} {
			if math.Abs(v[0]-v[1]) > 1e-5 {
				t.Errorf("%s: %s = %v, want %v", c.name, name, v[0], v[1])
			}
		}
	}
}

func TestSequenceMaskingMasksDriftedSequences(t *testing.T) {
	batch := []*trinity.Experience{
		seq(-1, []float32{-1, -1}, []float32{0, 0}), // drifts by 0.2 nats per token: masked
		seq(-1, []float32{-1, -1}, []float32{0, 0}), // 0.05: kept
		seq(1, []float32{-1, -1}, []float32{0, 0}),  // 0.2, but good: kept
	}
	now := []trinity.TokenStats{at(-1.3, -1.1), at(-1.1, -1), at(-1.2, -1.2)}
	args := map[string]any{"enable_sequence_masking": true, "clip_range": 0.9}
	grads, m, err := NewComposite(mustPolicy(t, "ppo", args), nil, &noEntropy{}).Loss(whole(batch...), now)
	if err != nil {
		t.Fatal(err)
	}
	r := func(d float64) float64 { return math.Exp(d) / 6 } // six trained tokens, the masked ones counted
	for i, want := range [][]float64{{0, 0, 0}, {0, r(-0.1), r(0)}, {0, -r(-0.2), -r(-0.2)}} {
		for k, w := range want {
			if got := float64(grads[i].Logprob[k]); math.Abs(got-w) > 1e-6 {
				t.Errorf("gradient[%d][%d] = %v, want %v", i, k, got, w)
			}
		}
	}
	compareMetrics(t, m, map[string]float64{
		"pg_loss": r(-0.1) + r(0) - 2*r(-0.2), "final_loss": r(-0.1) + r(0) - 2*r(-0.2), "pg_clipfrac": 0, "pg_clipfrac_lower": 0,
		"ppo_kl": (0.3 + 0.1 + 0.1 + 0 + 0.2 + 0.2) / 6, "seq_mask/masked_tokens": 2.0 / 6, "seq_mask/mean_sequence_kl": (0.2 + 0.05 + 0.2) / 3,
	}, 1e-6)
}

// A sequence of three tokens has the values 1…3, and a sequence of one has 10. A third has no
// trained tokens. The second sequence has two tokens of an environment, so its response is the
// longest.
func TestAggregateEqualsValuesByHand(t *testing.T) {
	environment := &trinity.Experience{Tokens: make([]int32, 6), Mask: []bool{false, false, true, false, false, false}, PromptLen: 1}
	untrained := &trinity.Experience{Tokens: make([]int32, 90), Mask: make([]bool, 90), PromptLen: 1}
	batch := []*trinity.Experience{seq(0, make([]float32, 3), nil), environment, untrained}
	batch[0].RefLogprobs = nil
	now := []trinity.TokenStats{at(-1, -2, -3), {Logprob: []float32{0, 0, -10, 0, 0, 0}}, {Logprob: make([]float32, 90)}}
	for mode, want := range map[AggMode]float64{
		TokenMean:           16.0 / 4,
		SeqMeanTokenSum:     (6.0 + 10) / 2,
		SeqMeanTokenMean:    (2.0 + 10) / 2,
		SeqMeanTokenSumNorm: 16.0 / 5,
	} {
		p := mustPolicy(t, "sft", map[string]any{"loss_agg_mode": string(mode)})
		_, m, err := NewComposite(p, nil, &noEntropy{}).Loss(whole(batch...), now)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(m["sft_loss"]-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", mode, m["sft_loss"], want)
		}
	}
}

// One token has the distance x = ref − lp from the reference. The test checks the estimate and its
// derivative for lp.
func TestKLEqualsValuesByHand(t *testing.T) {
	e := math.E
	for _, c := range []struct {
		name            string
		lp, ref, old    float32
		estimate, slope float64
	}{
		{"k1", -2, -1, -2, -1, 1},
		{"k1", -1, -3, -1, 2, 1},
		{"k2", -2, -1, -2, 0.5, -1},
		{"k2", -1, -3, -1, 2, 2},
		{"k3", -2, -1, -2, e - 2, 1 - e},
		{"k3", -2, -2, -2, 0, 0},
		{"low_var_kl", -2, -1, -2, e - 2, 1 - e},
		{"low_var_kl", -6, -2, -6, 10, 0},                              // e⁴ − 5 > 10
		{"low_var_kl", -1, -9, -1, math.Exp(-8) + 7, 1 - math.Exp(-8)}, // 7.0003 ≤ 10
		{"abs", -2, -1, -2, 1, -1},
		{"abs", -1, -3, -1, 2, 1},
		{"abs", -1, -1, -1, 0, 0},
		{"corrected_k3", -2, -1, -2, e - 2, (e - 2) + (1 - e)},       // on policy: r·k3' + r·k3
		{"corrected_k3", -2, -1, -1, (e - 2) / e, (e-2)/e + (1-e)/e}, // r = 1/e
		{"corrected_k3", -2, -1, -4, 2 * (e - 2), 2 * (1 - e)},       // r = e² cut to 2, so only k3' remains
		{"corrected_k3", -2, -4, float32(-2 - math.Log(1.5)), 1.5 * (math.Exp(-2) + 1), 1.5*(math.Exp(-2)+1) + 1.5*(1-math.Exp(-2))}, // r = 1.5
	} {
		kl, err := KLs.Build(c.name, map[string]any{"kl_coef": 0.5})
		if err != nil {
			t.Fatal(err)
		}
		x := seq(0, []float32{c.old}, []float32{c.ref})
		grads, m, err := NewComposite(&zero{}, kl, &noEntropy{}).Loss(whole(x), []trinity.TokenStats{at(c.lp)})
		if err != nil {
			t.Fatal(err)
		}
		for what, v := range map[string][2]float64{
			"kl_loss": {m["kl_loss"], c.estimate}, "kl_coef": {m["kl_coef"], 0.5}, "final_loss": {m["final_loss"], 0.5 * c.estimate},
			"gradient": {float64(grads[0].Logprob[1]), 0.5 * c.slope},
		} {
			if math.Abs(v[0]-v[1]) > 1e-6 {
				t.Errorf("%s at lp %v, ref %v, old %v: %s = %v, want %v", c.name, c.lp, c.ref, c.old, what, v[0], v[1])
			}
		}
	}
}

func TestCorrectedK3WithoutRecordedLogprobsIsK3(t *testing.T) {
	kl, err := KLs.Build("corrected_k3")
	if err != nil {
		t.Fatal(err)
	}
	x := seq(0, []float32{-9}, []float32{-1})
	x.Logprobs = nil
	_, m, err := NewComposite(&zero{}, kl, &noEntropy{}).Loss(whole(x), []trinity.TokenStats{at(-2)})
	if err != nil || math.Abs(m["kl_loss"]-(math.E-2)) > 1e-12 {
		t.Errorf("kl_loss %v, %v; want e − 2", m["kl_loss"], err)
	}
}

func TestEntropyEqualsValuesByHand(t *testing.T) {
	usual, expert := seq(0, []float32{-1, -1}, nil), seq(0, []float32{-1}, nil)
	usual.RefLogprobs, expert.RefLogprobs, expert.IsExpert = nil, nil, true
	now := []trinity.TokenStats{{Logprob: []float32{0, -1, -1}, Entropy: []float32{0, 1, 2}},
		{Logprob: []float32{0, -1}, Entropy: []float32{0, 6}}}
	for _, c := range []struct {
		name          string
		entropy       float64
		usual, expert float32 // gradient per token
	}{
		{"default", 3, -0.1, -0.1},
		{"mix", 1.5, -0.15, 0},
	} {
		bonus, err := Entropies.Build(c.name, map[string]any{"entropy_coef": 0.3})
		if err != nil {
			t.Fatal(err)
		}
		l := NewComposite(&zero{}, nil, bonus)
		if !l.Streams().Entropy {
			t.Errorf("%s does not ask for the entropy", c.name)
		}
		grads, m, err := l.Loss(whole(usual, expert), now)
		if err != nil {
			t.Fatal(err)
		}
		compareMetrics(t, m, map[string]float64{"entropy_loss": c.entropy, "final_loss": -0.3 * c.entropy}, 1e-12)
		if got, want := fmt.Sprint(grads[0].Entropy, grads[1].Entropy),
			fmt.Sprint([]float32{0, c.usual, c.usual}, []float32{0, c.expert}); got != want {
			t.Errorf("%s: gradient %s, want %s", c.name, got, want)
		}
	}
	if NewComposite(&zero{}, nil, &noEntropy{}).Streams().Entropy {
		t.Error("the term none asks for the entropy")
	}
}
