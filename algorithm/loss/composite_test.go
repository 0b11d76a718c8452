package loss

import (
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// zero is a policy loss of 0, to see the other terms alone.
type zero struct{}

func (*zero) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	return in.Tape.Value(0), trinity.Metrics{}, nil
}

// Gradients and summed metrics do not depend on the micro-batches of an optimizer step.
func TestMicroBatchesAddUp(t *testing.T) {
	r, batch, now := load(t)
	cuts := [][]int{{1, 1, 1, 1, 1, 1, 1}, {2, 3, 2}, {6, 1}, {3, 4}, {0, 7}}
	for _, c := range r.Cases {
		l := build(t, c)
		look(t, l, batch, now)
		whole, metrics, err := l.Loss(&trinity.Batch{Step: r.Step, Experiences: batch, Whole: batch}, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, cut := range cuts {
			sum := trinity.Metrics{}
			var grads []trinity.TokenGrads
			for from := 0; len(cut) > 0; cut = cut[1:] {
				to := from + cut[0]
				g, m, err := l.Loss(&trinity.Batch{Step: r.Step, Experiences: batch[from:to], Whole: batch}, now[from:to])
				if err != nil {
					t.Fatal(err)
				}
				grads, from = append(grads, g...), to
				sum.Add(m)
			}
			compareMetrics(t, sum, metrics, 1e-12)
			for i := range whole {
				sameGrads(t, c.Name, grads[i].Logprob, whole[i].Logprob)
				sameGrads(t, c.Name, grads[i].Entropy, whole[i].Entropy)
			}
		}
	}
}

// inMicroBatches returns the derivatives and the summed metrics of a step that is cut into micro-batches.
func inMicroBatches(
	t *testing.T, l *Composite, batch []*trinity.Experience, now []trinity.TokenStats, size int,
) (all []trinity.TokenGrads, sum trinity.Metrics) {
	t.Helper()
	sum = trinity.Metrics{}
	for from := 0; from < len(batch); from += size {
		to := min(from+size, len(batch))
		grads, m, err := l.Loss(&trinity.Batch{Experiences: batch[from:to], Whole: batch}, now[from:to])
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(m)
		all = append(all, grads...)
	}
	return all, sum
}

func sameGrads(t *testing.T, name string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d derivatives, want %d", name, len(got), len(want))
	}
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-12 {
			t.Errorf("%s: derivative %v, want %v", name, got[i], want[i])
		}
	}
}

// The test compares the gradients with differences of final_loss for every trained token's
// log-probability and entropy. It covers losses without stop-gradients (TestConformance covers the
// others). It moves tokens closer to the reference that record.py put far away, because an e³⁰ in
// the sum leaves the differences no digits.
func TestGradientsEqualFiniteDifferences(t *testing.T) {
	r, batch, now := load(t)
	for i, e := range batch {
		for k, ref := range e.RefLogprobs {
			if math.Abs(float64(ref-now[i].Logprob[k])) > 2.5 {
				e.RefLogprobs[k] = now[i].Logprob[k] + 1
			}
		}
	}
	const h = 1.0 / 1024
	for _, c := range r.Cases {
		if c.PolicyArgs["fallback_to_policy_gradient"] == true || c.Policy != "ppo" && c.Policy != "sft" {
			continue
		}
		l := build(t, c)
		value := func() float64 {
			_, m, err := l.Loss(&trinity.Batch{Experiences: batch, Whole: batch}, now)
			if err != nil {
				t.Fatal(err)
			}
			return m["final_loss"]
		}
		check := func(name string, stream, grad []float32, mask []bool, i int) {
			for k, trained := range mask {
				if !trained {
					continue
				}
				x := stream[k]
				stream[k] = x + h
				up, hi := value(), float64(stream[k])
				stream[k] = x - h
				down, lo := value(), float64(stream[k])
				stream[k] = x
				want := (up - down) / (hi - lo)
				if got := float64(grad[k]); math.Abs(got-want) > 2e-5*(1+math.Abs(want)) {
					t.Errorf("%s: d/d%s[%d][%d] = %v, differences give %v", c.Name, name, i, k, got, want)
				}
			}
		}
		grads, _, err := l.Loss(&trinity.Batch{Experiences: batch, Whole: batch}, now)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range batch {
			check("logprob", now[i].Logprob, grads[i].Logprob, e.Mask, i)
			if grads[i].Entropy != nil {
				check("entropy", now[i].Entropy, grads[i].Entropy, e.Mask, i)
			}
		}
	}
}

func TestMicroBatchesMayBeConcurrent(t *testing.T) {
	r, batch, now := load(t)
	l := build(t, r.Cases[0])
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, m, err := l.Loss(&trinity.Batch{Experiences: batch, Whole: batch}, now)
			if err != nil || math.Abs(m["pg_loss"]-r.Cases[0].Metrics["pg_loss"]) > 1e-12 {
				t.Errorf("pg_loss %v, %v", m["pg_loss"], err)
			}
		})
	}
	wg.Wait()
}

func TestUntrainedBatchHasZeroLoss(t *testing.T) {
	r, _, _ := load(t)
	e := &trinity.Experience{Tokens: make([]int32, 3), Mask: make([]bool, 3), PromptLen: 3}
	for _, c := range r.Cases {
		l, now := build(t, c), []trinity.TokenStats{{Logprob: make([]float32, 3), Entropy: make([]float32, 3)}}
		look(t, l, []*trinity.Experience{e}, now)
		grads, m, err := l.Loss(whole(e), now)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		for name, v := range m {
			if name != "kl_coef" && name != "mu" && v != 0 {
				t.Errorf("%s: %s = %v, want 0", c.Name, name, v)
			}
		}
		sameGrads(t, c.Name, grads[0].Logprob, make([]float32, 3))
	}
}

func TestLossReportsBadInput(t *testing.T) {
	kl, _ := KLs.Build("k2")
	bonus, _ := Entropies.Build("default")
	nan := float32(math.NaN())
	for _, c := range []struct {
		name string
		edit func(e *trinity.Experience, b *trinity.Batch, now *[]trinity.TokenStats)
		want string
	}{
		{"no recorded logprobs", func(e *trinity.Experience, _ *trinity.Batch, _ *[]trinity.TokenStats) { e.Logprobs = nil },
			"3/sum/1/0 has no logprobs"},
		{"no reference", func(e *trinity.Experience, _ *trinity.Batch, _ *[]trinity.TokenStats) { e.RefLogprobs = nil },
			"3/sum/1/0 has no ref_logprobs"},
		{"never scored", func(e *trinity.Experience, _ *trinity.Batch, _ *[]trinity.TokenStats) { e.Advantages = nil },
			"3/sum/1/0 has no advantages"},
		{"short", func(e *trinity.Experience, _ *trinity.Batch, _ *[]trinity.TokenStats) {
			e.Advantages = e.Advantages[:2]
		}, "advantages has length 2, want 3"},
		{"not a number", func(e *trinity.Experience, _ *trinity.Batch, _ *[]trinity.TokenStats) { e.Advantages[2] = nan },
			"advantages of token 2 is NaN"},
		{"engine: not a number", func(_ *trinity.Experience, _ *trinity.Batch,
			now *[]trinity.TokenStats) {
			(*now)[0].Logprob[1] = nan
		}, "current log-probability of token 1 is NaN"},
		{"engine: no entropy", func(_ *trinity.Experience, _ *trinity.Batch,
			now *[]trinity.TokenStats) {
			(*now)[0].Entropy = nil
		}, "0 values of entropy for 3 tokens"},
		{"engine: a sequence missing", func(_ *trinity.Experience, _ *trinity.Batch, now *[]trinity.TokenStats) { *now = nil },
			"0 sequences for a micro-batch of 1"},
		{"no whole step", func(_ *trinity.Experience, b *trinity.Batch, _ *[]trinity.TokenStats) { b.Whole = nil },
			"Batch.Whole has 0 sequences"},
	} {
		e := seq(1, []float32{-1, -1}, []float32{-1, -1})
		e.ID = trinity.ExperienceID{Step: 3, Task: "sum", Run: 1}
		b, now := whole(e), []trinity.TokenStats{at(-1, -1)}
		c.edit(e, b, &now)
		_, _, err := NewComposite(mustPolicy(t, "ppo", nil), kl, bonus).Loss(b, now)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	type args = map[string]any
	for _, c := range []struct {
		kind, name string
		args       args
		want       string
	}{
		{"policy", "ppo", args{"clip_range": -0.1}, "must be at least 0"},
		{"policy", "ppo", args{"clip_range_low": -0.1}, "must be at least 0"},
		{"policy", "ppo", args{"clip_range": math.NaN()}, "must be at least 0"},
		{"policy", "ppo", args{"clip_ratio_c": math.NaN()}, "clip_ratio_c: must be more than 1"},
		{"policy", "gspo", args{"clip_range": math.NaN()}, "must be at least 0"},
		{"policy", "cispo", args{"clip_range_high": math.NaN()}, "must be at least 0"},
		{"policy", "ppo", args{"clip_ratio_c": 1}, "clip_ratio_c: must be more than 1"},
		{"policy", "ppo", args{"delta_sequence_masking": -1}, "delta_sequence_masking"},
		{"policy", "ppo", args{"loss_agg_mode": "meen"}, "want token-mean, seq-mean-token-sum,"},
		{"policy", "ppo", args{"clip_range": 0.3, "clip_range_low": 0.2, "clip_range_high": 0.28}, "clip_range has no effect"},
		{"policy", "ppo", args{"delta": 1}, "unknown argument"},
		{"policy", "sft", args{"loss_agg_mode": "meen"}, "want token-mean, seq-mean-token-sum,"},
		{"policy", "gspo", args{"clip_range_high": -0.1}, "must be at least 0"},
		{"policy", "gspo", args{"clip_range": 0.3, "clip_range_low": 0.2, "clip_range_high": 0.28}, "clip_range has no effect"},
		{"policy", "cispo", args{"mask_clip_range_high": -1}, "must be at least 0"},
		{"policy", "sapo", args{"tau_pos": 0}, "tau_pos: must be more than 0"},
		{"policy", "sapo", args{"tau_pos": 2, "tau_neg": 1.5}, "tau_neg must be at least tau_pos"},
		{"policy", "topr", args{"advantage_threshold": math.NaN()}, "advantage_threshold"},
		{"policy", "sapo", args{"tau_neg": math.Inf(1)}, "tau_neg: must be finite and more than 0"},
		{"policy", "opmd", args{"tau": -0.5}, "tau: must be at least 0"},
		{"policy", "opmd", args{"tau": math.Inf(1)}, "tau: must be finite and at least 0"},
		{"policy", "sppo", args{"epsilon": 0}, "epsilon: must be more than 0"},
		{"policy", "importance_sampling", args{"loss_agg_mode": "meen"}, "want token-mean, seq-mean-token-sum,"},
		{"policy", "sft_is", args{"loss_agg_mode": "meen"}, "want token-mean, seq-mean-token-sum,"},
		{"policy", "sft_phi", args{"cutoff_prob": 1.5}, "cutoff_prob: must be more than 0 and at most 1"},
		{"policy", "m2po", args{"m2_threshold": 0}, "m2_threshold: must be more than 0"},
		{"policy", "m2po", args{"log_ratio_clip": 90}, "at most 80"},
		{"policy", "rec", args{"epsilon_low": 0}, "epsilon_low: must be more than 0 and at most 1"},
		{"policy", "rec", args{"epsilon_low_prime": 2}, "at most 1"},
		{"policy", "rec", args{"temp": 0}, "temp: must be more than 0"},
		{"policy", "rec", args{"clip_mode": "ringed"},
			"clip_mode: want none, one-side, two-side, ring or gspo-one-side"},
		{"policy", "rec", args{"weight": "gspo_importance_sampling", "clip_mode": "one-side"}, "set clip_mode: gspo-one-side"},
		{"policy", "rec", args{"regularizer": "k2", "regularizer_coef": -1}, "regularizer_coef: must be at least 0"},
		{"policy", "rec", args{"regularizer_coef": 0.1}, "no effect without a regularizer"},
		{"policy", "rec", args{"loss_agg_mode": "meen"}, `unknown mode "meen"`},
		{"policy", "mix", args{"mu": 1.5}, "mu: must be at least 0 and at most 1"},
		{"policy", "mix", args{"sft_loss_agg_mode": "meen"}, "want token-mean, seq-mean-token-sum,"},
		{"policy", "mix", args{"grpo_loss_agg_mode": "meen"}, "want token-mean, seq-mean-token-sum,"},
		{"policy", "mix", args{"clip_range": -1}, "must be at least 0"},
		{"policy", "mix_chord", args{"mu_decay_steps": -1}, "must be at least 0"},
		{"policy", "mix_chord", args{"mu_peak": 2}, "mu_peak: must be at least 0 and at most 1"},
		{"kl", "k2", args{"kl_coef": -1}, "kl_coef"},
		{"kl", "k2", args{"kl_coef": math.NaN()}, "kl_coef"},
		{"kl", "k2", args{"adaptive": true, "target_kl": 0.1}, "horizon"},
		{"kl", "k2", args{"target_kl": 0.1}, "needs adaptive"},
		{"kl", "none", args{"kl_coef": -1}, "kl_coef"},
		{"entropy", "none", args{"entropy_cof": 0.1}, "unknown argument"},
		{"entropy", "mix", args{"entropy_coef": math.Inf(1)}, "finite"},
	} {
		var err error
		switch c.kind {
		case "policy":
			_, err = PolicyLosses.Build(c.name, c.args)
		case "kl":
			_, err = KLs.Build(c.name, c.args)
		case "entropy":
			_, err = Entropies.Build(c.name, c.args)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: error %v, want %q", c.name, c.args, err, c.want)
		}
	}
}

// Files of Trinity-RFT often keep the arguments of a term that they switch off.
func TestAbsentTermsTakeTheArgumentsOfTerms(t *testing.T) {
	kl, err := KLs.Build("none", map[string]any{"kl_coef": 0.1, "adaptive": false})
	if err != nil {
		t.Fatal(err)
	}
	entropy, err := Entropies.Build("none", map[string]any{"entropy_coef": 0.1})
	if err != nil {
		t.Fatal(err)
	}
	if c := NewComposite(&sft{Agg{TokenMean}}, kl, entropy); c.KL != nil || c.Bonus != nil || c.KLCoef() != 0 {
		t.Errorf("got a KL term %v of weight %v and an entropy term %v, want neither", c.KL, c.KLCoef(), c.Bonus)
	}
}

func TestKLCoefficientAdapts(t *testing.T) {
	c := KLController{KLCoef: 0.1, Adaptive: true, TargetKL: 2, Horizon: 100}
	for _, k := range []struct {
		kl        float64
		sequences int
		want      float64
	}{
		{2, 50, 0.1},          // on target
		{2.2, 50, 0.1 * 1.05}, // +10 % · 50/100
		{20, 50, 0.1 * 1.1},   // limited to +20 %
		{1.8, 50, 0.1 * 0.95}, // −10 %
		{0, 50, 0.1 * 0.9},    // limited to −20 %
		{20, 100, 0.1 * 1.2},  // a whole horizon
		{0, 900, 0.1 * 0.8},   // nine horizons in a step count as one: never below 0
	} {
		if got := c.Next(0.1, k.kl, k.sequences); math.Abs(got-k.want) > 1e-15 {
			t.Errorf("KL %v over %d sequences: %v, want %v", k.kl, k.sequences, got, k.want)
		}
	}
	c.Adaptive = false
	if got := c.Next(0.1, 20, 50); got != 0.1 {
		t.Errorf("a constant coefficient became %v", got)
	}
}

func TestPenaltyIsPerToken(t *testing.T) {
	kl, err := KLs.Build("k2", map[string]any{"kl_coef": 0.1})
	if err != nil {
		t.Fatal(err)
	}
	batch := []*trinity.Experience{seq(0, []float32{-1, -2}, []float32{-2, -2}), seq(0, []float32{-1}, []float32{-3})}
	got, m, err := NewPenalty(kl).Of(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]float64{{0, 0.05, 0}, {0, 0.2}}
	for i := range want {
		for k := range want[i] {
			if math.Abs(got[i][k]-want[i][k]) > 1e-15 {
				t.Errorf("penalty[%d][%d] = %v, want %v", i, k, got[i][k], want[i][k])
			}
		}
	}
	compareMetrics(t, m, map[string]float64{"kl": (0.25 + 2) / 2, "kl_coef": 0.1}, 1e-15)
	batch[1].RefLogprobs = nil
	if _, _, err := NewPenalty(kl).Of(t.Context(), batch); err == nil || !strings.Contains(err.Error(), "ref_logprobs") {
		t.Errorf("error %v", err)
	}
}

// If no mode is set, the loss chooses it when it computes. Checking the arguments changes nothing.
func TestRECChoosesItsModeAtUse(t *testing.T) {
	for _, c := range []struct {
		args map[string]any
		want AggMode
	}{
		{map[string]any{}, TokenMean}, {map[string]any{"clip_mode": "gspo-one-side"}, SeqMeanTokenMean},
		{map[string]any{"clip_mode": "gspo-one-side", "loss_agg_mode": "token-mean"}, TokenMean},
	} {
		p, err := PolicyLosses.Build("rec", c.args)
		if err != nil {
			t.Fatal(err)
		}
		set, _ := c.args["loss_agg_mode"].(string)
		if got := NewComposite(p, nil, nil).Mode; got != c.want || string(*Aggregation(p)) != set {
			t.Errorf("%v: %s, and set is %q", c.args, got, *Aggregation(p))
		}
	}
}
