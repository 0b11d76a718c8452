package loss

import (
	"math"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// There are two rollouts of one and three tokens, and a demonstration of two tokens without
// recorded log-probabilities.
func TestMixEqualsValuesByHand(t *testing.T) {
	one, three := seq(1, []float32{-1}, nil), seq(-1, []float32{-1, -1, -1}, nil)
	demonstration := &trinity.Experience{Tokens: make([]int32, 3), Mask: []bool{false, true, true}, PromptLen: 1, IsExpert: true}
	streams := map[*trinity.Experience]trinity.TokenStats{one: at(-1), three: at(-1, -1, -1), demonstration: at(-0.5, -1.5)}
	phi := func(lp float64) float64 { p := math.Exp(lp); return -lp * p * (1 - p) }
	for _, c := range []struct {
		name   string
		policy string
		args   map[string]any
		batch  []*trinity.Experience
		usual  float64
		expert float64
		mu     float64
	}{
		{"both kinds", "mix", nil, []*trinity.Experience{one, three, demonstration}, (-1 + 3.0) / 4, 1, 0.1},
		{"mu", "mix", map[string]any{"mu": 0.75}, []*trinity.Experience{one, three, demonstration}, 0.5, 1, 0.75},
		{"no demonstration", "mix", nil, []*trinity.Experience{one, three}, 0.5, 0, 0.1},
		{"no rollout", "mix", nil, []*trinity.Experience{demonstration}, 0, 1, 0.1},
		{"modes of their own", "mix", map[string]any{"sft_loss_agg_mode": "seq-mean-token-sum", "grpo_loss_agg_mode": "seq-mean-token-mean"},
			[]*trinity.Experience{one, three, demonstration}, 0, 2, 0.1},
		{"one mode for both", "mix", map[string]any{"loss_agg_mode": "seq-mean-token-sum"},
			[]*trinity.Experience{one, three, demonstration}, (-1 + 3.0) / 2, 2, 0.1},
		{"chord", "mix_chord", map[string]any{"mu_peak": 0.3, "mu_valley": 0.2}, []*trinity.Experience{one, three, demonstration},
			0.5, (phi(-0.5) + phi(-1.5)) / 2, 0.2},
		{"chord without phi", "mix_chord", map[string]any{"enable_phi_function": false},
			[]*trinity.Experience{one, three, demonstration}, 0.5, 1, 0.1},
		{"chord, no demonstration", "mix_chord", nil, []*trinity.Experience{one, three}, 0.5, 0, 0.1},
		{"chord, no rollout", "mix_chord", nil, []*trinity.Experience{demonstration}, 0, (phi(-0.5) + phi(-1.5)) / 2, 0.1},
	} {
		var now []trinity.TokenStats
		for _, e := range c.batch {
			now = append(now, streams[e])
		}
		_, m, err := NewComposite(mustPolicy(t, c.policy, c.args), nil, &noEntropy{}).Loss(whole(c.batch...), now)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		name := "expert/sft_loss"
		if c.policy == "mix_chord" && c.args["enable_phi_function"] == nil {
			name = "expert/sft_phi_loss"
		}
		total := (1-c.mu)*c.usual + c.mu*c.expert
		for what, want := range map[string]float64{"usual/pg_loss": c.usual, name: c.expert, "loss": total, "final_loss": total} {
			if got, ok := m[what]; !ok || !(math.Abs(got-want) < 1e-7) {
				t.Errorf("%s: %s = %v, want %v", c.name, what, got, want)
			}
		}
		if got, ok := m["mu"]; ok != (c.policy == "mix_chord") || ok && math.Abs(got-c.mu) > 1e-12 {
			t.Errorf("%s: mu = %v, %v", c.name, got, ok)
		}
	}
}

// A part of a loss sees nothing of the other sequences, and they do not count for it.
func TestOverHidesOtherSequences(t *testing.T) {
	usual, expert := seq(3, []float32{-1, -2}, nil), seq(5, []float32{-4}, nil)
	expert.IsExpert = true
	in, err := NewInput(new(tape.Tape), whole(usual, expert), []trinity.TokenStats{at(-6, -8), at(-9)}, trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	part := in.Over(Usual)
	adv, err := part.Advantages()
	if err != nil || !slices.Equal(adv.Value(), []float64{3, 3, 0}) {
		t.Errorf("advantages %v, %v", adv.Value(), err)
	}
	for what, v := range map[string][2]float64{
		"aggregate":       {part.Aggregate(TokenMean, in.Logprob, nil).Scalar(), -7},
		"and among those": {part.Aggregate(TokenMean, in.Logprob, Expert).Scalar(), 0},
		"share of tokens": {part.MeanTrue(func(int) bool { return true }), 1},
		"over sequences":  {part.SequenceMean(in.Logprob.SeqMean(nil)), -7},
		"the whole":       {in.Aggregate(TokenMean, in.Logprob, nil).Scalar(), -23.0 / 3},
	} {
		if math.Abs(v[0]-v[1]) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, v[0], v[1])
		}
	}
}

func TestMuFollowsItsSchedule(t *testing.T) {
	for _, c := range []struct {
		warmup, decay int
		step          int64
		want          float64
	}{
		{10, 20, 1, 0.09}, {10, 20, 5, 0.45}, {10, 20, 10, 0.9}, {10, 20, 20, 0.5}, {10, 20, 15, 0.5 + 0.4*math.Sqrt2/2},
		{10, 20, 30, 0.1}, {10, 20, 1000, 0.1},
		{0, 0, 1, 0.1}, {0, 4, 2, 0.5}, {3, 0, 2, 0.6}, {3, 0, 3, 0.1},
	} {
		l := &mixChord{MuWarmupSteps: c.warmup, MuDecaySteps: c.decay, MuPeak: 0.9, MuValley: 0.1}
		if got := l.mu(c.step); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("warm-up %d, decay %d, step %d: mu = %v, want %v", c.warmup, c.decay, c.step, got, c.want)
		}
	}
}

// The loss accepts the batch sizes in Trinity-RFT's files and ignores them.
func TestBatchSizesOfTrinityRFTFilesChangeNothing(t *testing.T) {
	for _, name := range []string{"mix", "mix_chord"} {
		l := mustPolicy(t, name, map[string]any{
			"use_dynamic_bsz": true, "ppo_mini_batch_size": 320, "ppo_micro_batch_size_per_gpu": 4, "ngpus_trainer": 4,
			"train_batch_size_expert": 64,
			"train_batch_size_usual":  256, "sft_loss_agg_mode": "token-mean", "grpo_loss_agg_mode": nil,
		})
		batch := []*trinity.Experience{seq(1, []float32{-1.5}, nil), seq(0, []float32{-1}, nil)}
		batch[1].IsExpert = true
		now := []trinity.TokenStats{at(-1), at(-2)}
		_, got, err := NewComposite(l, nil, &noEntropy{}).Loss(whole(batch...), now)
		if err != nil {
			t.Fatal(err)
		}
		_, want, err := NewComposite(mustPolicy(t, name, nil), nil, &noEntropy{}).Loss(whole(batch...), now)
		if err != nil {
			t.Fatal(err)
		}
		compareMetrics(t, got, want, 0)
	}
}
