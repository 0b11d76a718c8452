package loss

import (
	"math"
	"testing"

	"github.com/trinity-go/trinity"
)

// One token has lp −2 and the given ratio to the recorded log-probability. The test checks loss and
// d(loss)/d(lp) on every side of every clip.
func TestTokenLossesEqualValuesByHand(t *testing.T) {
	type args = map[string]any
	e := math.E
	p := math.Exp(-2)
	ln := math.Log
	gate := func(tau, r float64) float64 { return 4 / tau / (1 + math.Exp(-tau*(r-1))) }
	for _, c := range []struct {
		policy string
		name   string
		args   args
		adv    float32
		ratio  float64
		loss   float64
		grad   float64
	}{
		{"cispo", "on policy", nil, 2, 1, 4, -2},
		{"cispo", "good, too likely: the weight is cut, the derivative stays", nil, 2, 1.5, 5.12, -2.56},
		{"cispo", "good, unlikely: learnt slowly", nil, 2, 0.5, 2, -1},
		{"cispo", "bad, too likely: the weight is cut as well", nil, -2, 1.5, -5.12, 2.56},
		{"cispo", "bad, unlikely", nil, -2, 0.1, -0.4, 0.2},
		{"cispo", "lower bound", args{"clip_range_low": 0.2}, 2, 0.5, 3.2, -1.6},
		{"cispo", "mask: good and above", args{"enable_mask_clip": true}, 2, 1.5, 0, 0},
		{"cispo", "mask: good and below stays", args{"enable_mask_clip": true, "mask_clip_range_low": 0.2}, 2, 0.5, 2, -1},
		{"cispo", "mask: bad and above stays", args{"enable_mask_clip": true}, -2, 1.5, -5.12, 2.56},
		{"cispo", "mask: bad and below", args{"enable_mask_clip": true, "mask_clip_range_low": 0.2}, -2, 0.5, 0, 0},
		{"cispo", "mask bounds are read only with the mask", args{"mask_clip_range_high": 0.0}, 2, 1.2, 4.8, -2.4},

		{"sapo", "good, on policy: the gate is 2", nil, 1, 1, 4, -2},
		{"sapo", "bad, on policy: 2/1.05", nil, -1, 1, -4 / 1.05, 2 / 1.05},
		{"sapo", "good, likely", nil, 1, 2, 2 * gate(1, 2), -gate(1, 2)},
		{"sapo", "bad, unlikely", nil, -3, 0.5, -6 * gate(1.05, 0.5), 3 * gate(1.05, 0.5)},
		{"sapo", "advantage 0 has tau_neg, and no loss", nil, 0, 2, 0, 0},
		{"sapo", "paper, on policy: the derivative is that of the policy gradient", args{"differentiate_gate": true}, 1, 1, -2, -1},
		{"sapo", "paper, bad, on policy", args{"differentiate_gate": true}, -1, 1, 2 / 1.05, 1},
		{"sapo", "paper, likely: 4σ(1)σ(−1)·2", args{"differentiate_gate": true}, 1, 2, -gate(1, 2), -8 / (1 + e) / (1 + 1/e)},
		{"sapo", "paper, beyond e^20: shut", args{"differentiate_gate": true}, 1, math.Exp(30), -4, 0},

		{"topr", "good, unlikely: in full", nil, 2, 0.1, 4, -2},
		{"topr", "good, likely: in full", nil, 2, 3, 4, -2},
		{"topr", "bad, unlikely: tapered", nil, -2, 0.5, -2, 1},
		{"topr", "bad, likely: at most in full", nil, -2, 3, -4, 2},
		{"topr", "below the threshold", args{"advantage_threshold": 1.0}, 0.5, 0.5, 0.5, -0.25},
		{"topr", "on the threshold", args{"advantage_threshold": 0.5}, 0.5, 0.5, 0.5, -0.25},
		{"topr", "above the threshold", args{"advantage_threshold": -1.0}, -0.5, 0.5, -1, 0.5},

		{"opmd", "tau 1", nil, 3, 7, 3, -1.5},
		{"opmd", "tau 0", args{"tau": 0}, 3, 0.1, 6, -3},
		{"opmd", "bad", nil, -3, 1, -3, 1.5},

		{"sppo", "inside, above", nil, 2, 1.2, -2 * ln(1.2), -2},
		{"sppo", "inside, below", nil, 2, 0.78, -2 * ln(0.78), -2},
		{"sppo", "outside, above", nil, 2, 1.31, 0, 0},
		{"sppo", "outside, below 1/1.3", nil, 2, 0.76, 0, 0},
		{"sppo", "bad, outside, above", nil, -2, 1.31, 0, 0},
		{"sppo", "wider", args{"epsilon": 1.0}, -2, 1.9, 2 * ln(1.9), 2},

		{"importance_sampling", "good", nil, 2, 1.5, -3, -3},
		{"importance_sampling", "bad, no clip", nil, -2, 9, 18, 18},
		{"importance_sampling", "beyond e^20", nil, 2, math.Exp(25), -2 * math.Exp(20), 0},
		{"importance_sampling", "below e^−20", nil, -2, math.Exp(-25), 2 * math.Exp(-20), 0},

		{"m2po", "within", args{"m2_threshold": 1}, 2, 1.5, -3, -3},
		{"m2po", "good, too likely", nil, 2, 1.5, 0, 0},
		{"m2po", "good, unlikely: not in the trust set", nil, 2, 0.1, -0.2, -0.2},
		{"m2po", "bad, too unlikely", nil, -2, 0.5, 0, 0},
		{"m2po", "bad, likely: not in the trust set", nil, -2, 3, 6, 6},
		{"m2po", "the clamp bounds the value and lets the derivative through", args{"log_ratio_clip": ln(2)}, -2, 3, 4, 4},

		{"rec", "plain", nil, 2, 9, 4, -2},
		{"rec", "one-side: good, above", args{"clip_mode": "one-side"}, 2, 1.3, 0, 0},
		{"rec", "one-side: good, below", args{"clip_mode": "one-side"}, 2, 0.5, 4, -2},
		{"rec", "one-side: bad, below", args{"clip_mode": "one-side"}, -2, 0.7, 0, 0},
		{"rec", "one-side: bad, above", args{"clip_mode": "one-side"}, -2, 1.5, -4, 2},
		{"rec", "one-side: on the bound's near side", args{"clip_mode": "one-side"}, 2, 1.199, 4, -2},
		{"rec", "two-side: good, below", args{"clip_mode": "two-side"}, 2, 0.7, 0, 0},
		{"rec", "two-side: bad, above", args{"clip_mode": "two-side"}, -2, 1.3, 0, 0},
		{"rec", "two-side: inside", args{"clip_mode": "two-side"}, 2, 1.1, 4, -2},
		{"rec", "ring: inside", args{"clip_mode": "ring"}, 2, 1.1, 4, -2},
		{"rec", "ring: good, in the ring", args{"clip_mode": "ring"}, 2, 0.5, 0, 0},
		{"rec", "ring: good, beyond the ring", args{"clip_mode": "ring"}, 2, 0.3, 4, -2},
		{"rec", "ring: good, above", args{"clip_mode": "ring"}, 2, 4, 0, 0},
		{"rec", "ring: bad, in the ring", args{"clip_mode": "ring"}, -2, 2, 0, 0},
		{"rec", "ring: bad, beyond the ring", args{"clip_mode": "ring"}, -2, 3.5, -4, 2},
		{"rec", "ring: bad, below", args{"clip_mode": "ring"}, -2, 0.3, 0, 0},
		{"rec", "weighted by the ratio", args{"weight": "importance_sampling"}, 2, 1.5, 6, -3},
		{"rec", "the ratio truncated above", args{"weight": "truncated_importance_sampling"}, 2, 5, 12, -6},
		{"rec", "the ratio truncated below", args{"weight": "truncated_importance_sampling"}, 2, 0.1, 1.6, -0.8},
		{"rec", "weighted by the advantage", args{"weight": "advantage"}, 1, 9, 2 * e, -e},
		{"rec", "bad ones count less", args{"weight": "advantage", "temp": 0.5}, -1, 1, -2 * p, p},
		{"rec", "sequence ratio", args{"clip_mode": "gspo-one-side", "weight": "gspo_importance_sampling"}, 2, 1.1, 4.4, -2.2},
		{"rec", "sequence ratio, clipped", args{"clip_mode": "gspo-one-side", "weight": "gspo_importance_sampling"}, 2, 1.3, 0, 0},
		{"rec", "forward KL", args{"regularizer": "forward-kl", "regularizer_coef": 0.5}, 2, 1.5, 5, -2.5},
		{"rec", "k2", args{"regularizer": "k2", "regularizer_coef": 0.5}, 2, 1.5, 4 + 0.5*ln(1.5)*ln(1.5), -2 + ln(1.5)},
		{"rec", "k2 holds what is clipped, too", args{"regularizer": "k2", "regularizer_coef": 0.5, "clip_mode": "one-side"}, 2,
			1.5, 0.5 * ln(1.5) * ln(1.5), ln(1.5)},
		{"rec", "distillation's advantage brought up to date", args{"fix_opd_advantage": true}, 2, 1.5, 2 * (2 - ln(1.5)), ln(1.5) - 2},
		{"rec", "which changes its side", args{"fix_opd_advantage": true, "clip_mode": "one-side"}, -0.1, 0.5, 2 * (ln(2) - 0.1), 0.1 - ln(2)},

		{"sft_is", "weighted by p", nil, 9, 3, 2 * p, -p},
		{"sft_phi", "weighted by p(1 − p)", nil, 9, 3, 2 * p * (1 - p), -p * (1 - p)},
		{"sft_phi", "above the cutoff", args{"cutoff_prob": 0.1}, 0, 1, -ln(0.1) * p * (1 - p), 0},
		{"sft_phi", "below the cutoff", args{"cutoff_prob": 0.5}, 0, 1, 2 * p * (1 - p), -p * (1 - p)},
	} {
		x := seq(c.adv, []float32{-2 - float32(ln(c.ratio))}, []float32{0})
		now := []trinity.TokenStats{at(-2)}
		l := NewComposite(mustPolicy(t, c.policy, c.args), nil, &noEntropy{})
		look(t, l, []*trinity.Experience{x}, now)
		grads, m, err := l.Loss(whole(x), now)
		if err != nil {
			t.Fatal(err)
		}
		for what, v := range map[string][2]float64{"loss": {m["final_loss"], c.loss}, "gradient": {float64(grads[0].Logprob[1]), c.grad}} {
			if !(math.Abs(v[0]-v[1]) <= 1e-5*(1+math.Abs(v[1]))) {
				t.Errorf("%s, %s: %s = %v, want %v", c.policy, c.name, what, v[0], v[1])
			}
		}
	}
}

// Sequences of two tokens have mean log-ratios inside and outside the clip.
func TestGSPOEqualsValuesByHand(t *testing.T) {
	inside, above, below := math.Exp(3e-4), math.Exp(1e-3), math.Exp(-1e-3)
	for _, c := range []struct {
		name   string
		args   map[string]any
		adv    float32
		d      [2]float64
		loss   float64
		grad   float64 // of each token
		clipsN float64
	}{
		{"on policy", nil, 2, [2]float64{0, 0}, -2, -1, 0},
		{"inside, though one token is not", nil, 1, [2]float64{-0.0093, 0.0099}, -inside, -inside / 2, 0},
		{"good, above", nil, 1, [2]float64{1e-3, 1e-3}, -1.0004, 0, 1},
		{"good, below", nil, 1, [2]float64{-1e-3, -1e-3}, -below, -below / 2, 0},
		{"bad, above", nil, -1, [2]float64{1e-3, 1e-3}, above, above / 2, 0},
		{"bad, below", nil, -1, [2]float64{-1e-3, -1e-3}, 0.9997, 0, 1},
		{"clip_range for both sides", map[string]any{"clip_range": 0.1}, 1, [2]float64{1, 1}, -1.1, 0, 1},
		{"clip_range_low does not move the upper side", map[string]any{"clip_range_low": 0.1}, 1, [2]float64{1, 1}, -1.0004, 0, 1},
		{"clip_range_high over clip_range", map[string]any{"clip_range": 0.1, "clip_range_high": 9.0}, 1, [2]float64{1, 1},
			-math.E, -math.E / 2, 0},
	} {
		x := seq(c.adv, []float32{-float32(c.d[0]), -float32(c.d[1])}, nil)
		x.RefLogprobs = nil
		grads, m, err := NewComposite(mustPolicy(t, "gspo", c.args), nil, &noEntropy{}).Loss(whole(x), []trinity.TokenStats{at(0, 0)})
		if err != nil {
			t.Fatal(err)
		}
		mean := (c.d[0] + c.d[1]) / 2
		compareMetrics(t, m, map[string]float64{"pg_loss": c.loss, "final_loss": c.loss, "pg_clipfrac": c.clipsN, "ppo_kl": -mean,
			"ppo_kl_seq": -mean}, 1e-7)
		for _, g := range grads[0].Logprob[1:] {
			if math.Abs(float64(g)-c.grad) > 1e-7 {
				t.Errorf("%s: gradient %v, want %v", c.name, g, c.grad)
			}
		}
	}
}

// Five tokens have moved with the update, by 0.1 to 0.5. One has moved back, and one has advantage
// 0.
func TestM2POEqualsValuesByHand(t *testing.T) {
	good := seq(1, []float32{-1.1, -1.3, -1.5, -0.4, -1}, nil) // d 0.1, 0.3, 0.5, −0.6, 0
	bad := seq(-1, []float32{-0.8, -0.6, -0.7}, nil)           // d −0.2, −0.4, −0.3
	bad.Advantages[3] = 0                                      // and the last is neither good nor bad
	batch := []*trinity.Experience{good, bad}
	now := []trinity.TokenStats{at(-1, -1, -1, -1, -1), at(-1, -1, -1)}
	for _, c := range []struct {
		name      string
		threshold float64
		left      int // of the five, from the largest
		after     float64
	}{
		{"all within", 0.12, 0, 0.55 / 5},
		{"the largest goes", 0.1, 1, 0.3 / 4},
		{"a mean just within the threshold stays", 0.07501, 1, 0.3 / 4},
		{"two go", 0.05, 2, 0.14 / 3},
		{"the mean of the rest decides, not each square", 0.0251, 3, 0.05 / 2},
		{"all go", 0.009, 5, 0},
	} {
		l := NewComposite(mustPolicy(t, "m2po", map[string]any{"m2_threshold": c.threshold}), nil, &noEntropy{})
		look(t, l, batch, now)
		grads, m, err := l.Loss(whole(batch...), now)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]float64{
			"m2po/m2_before": 0.55 / 5, "m2po/m2_after": c.after, "m2po/masked_fraction": float64(c.left) / 8, "m2po/trust_region_fraction": 5.0 / 8,
		} {
			if math.Abs(m[name]-want) > 1e-6 {
				t.Errorf("%s: %s = %v, want %v", c.name, name, m[name], want)
			}
		}
		inOrder := []float32{grads[0].Logprob[1], grads[1].Logprob[1], grads[0].Logprob[2], grads[1].Logprob[2], grads[0].Logprob[3]}
		for k, g := range inOrder {
			if (g == 0) != (k >= len(inOrder)-c.left) {
				t.Errorf("%s: token %d by distance has gradient %v", c.name, k, g)
			}
		}
		if grads[0].Logprob[4] == 0 {
			t.Errorf("%s: the token that moved back is left out", c.name)
		}
	}
}

// Otherwise the order of equal tokens would decide which one the loss removes.
func TestM2PORemovesTiesTogether(t *testing.T) {
	batch := []*trinity.Experience{seq(1, []float32{-1.5, -1.1, -1.5}, nil)}
	now := []trinity.TokenStats{at(-1, -1, -1)}
	// one of 0.25 and 0.01 would have mean 0.13
	l := NewComposite(mustPolicy(t, "m2po", map[string]any{"m2_threshold": 0.15}), nil, &noEntropy{})
	look(t, l, batch, now)
	grads, _, err := l.Loss(whole(batch...), now)
	if err != nil || grads[0].Logprob[1] != 0 || grads[0].Logprob[2] == 0 || grads[0].Logprob[3] != 0 {
		t.Errorf("gradient %v, %v", grads[0].Logprob, err)
	}
}

// A step without trained tokens needs no preparation, and its metrics contain nothing of the step
// before.
func TestM2POForgetsTheStepBefore(t *testing.T) {
	l := NewComposite(mustPolicy(t, "m2po", nil), nil, &noEntropy{})
	look(t, l, []*trinity.Experience{seq(1, []float32{-2}, nil)}, []trinity.TokenStats{at(-1)})
	empty := &trinity.Experience{Tokens: make([]int32, 2), Mask: make([]bool, 2), PromptLen: 1}
	now := []trinity.TokenStats{{Logprob: make([]float32, 2)}}
	look(t, l, []*trinity.Experience{empty}, now)
	_, m, err := l.Loss(whole(empty), now)
	if err != nil || m["m2po/m2_before"] != 0 {
		t.Errorf("m2_before %v, %v", m["m2po/m2_before"], err)
	}
}

func TestM2PONeedsTheWholeStep(t *testing.T) {
	x := seq(1, []float32{-1}, nil)
	_, _, err := NewComposite(mustPolicy(t, "m2po", nil), nil, &noEntropy{}).Loss(whole(x), []trinity.TokenStats{at(-1)})
	if err == nil {
		t.Error("a step that m2po was not shown was trained on")
	}
}
