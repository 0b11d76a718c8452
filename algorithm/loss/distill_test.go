package loss

import (
	"math"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// One sequence has the divergences 1 and 2, another has 4, and one has only untrained tokens.
func TestDistillEqualsValuesByHand(t *testing.T) {
	for _, c := range []struct {
		mode    AggMode
		weights []float32
		loss    float64
		grads   [3]float64
	}{
		{TokenMean, nil, 7.0 / 3, [3]float64{1.0 / 3, 1.0 / 3, 1.0 / 3}},
		{SeqMeanTokenMean, nil, (1.5 + 4) / 2, [3]float64{0.25, 0.25, 0.5}},
		{SeqMeanTokenSum, nil, (3.0 + 4) / 2, [3]float64{0.5, 0.5, 0.5}},
		{TokenMean, []float32{0, 2, 0}, (2.0 + 0 + 4) / 3, [3]float64{2.0 / 3, 0, 1.0 / 3}},
	} {
		batch := []*trinity.Experience{seq(0, []float32{-1, -1}, nil), seq(0, []float32{-1}, nil)}
		batch[0].RefLogprobs, batch[1].RefLogprobs, batch[0].PolicyWeights = nil, nil, c.weights
		now := []trinity.TokenStats{at(-1, -1), at(-1)}
		now[0].Divergence, now[1].Divergence = []float32{9, 1, 2}, []float32{9, 4}
		l := NewComposite(mustPolicy(t, "distill", map[string]any{"loss_agg_mode": string(c.mode), "divergence": "jsd",
			"beta": 0.2}), nil, &noEntropy{})
		if want := (trinity.Streams{Divergence: trinity.Divergence{Kind: trinity.JSD, Beta: 0.2}}); l.Streams() != want {
			t.Errorf("streams %+v, want %+v", l.Streams(), want)
		}
		grads, m, err := l.Loss(whole(batch...), now)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(m["distill_loss"]-c.loss) > 1e-12 || math.Abs(m["final_loss"]-c.loss) > 1e-12 {
			t.Errorf("%s, weights %v: %v, want %v", c.mode, c.weights, m, c.loss)
		}
		got := [][]float32{grads[0].Divergence, grads[1].Divergence}
		for i, want := range [][]float64{{0, c.grads[0], c.grads[1]}, {0, c.grads[2]}} {
			for k, w := range want {
				if math.Abs(float64(got[i][k])-w) > 1e-7 || grads[i].Logprob[k] != 0 {
					t.Errorf("%s, weights %v: gradient[%d][%d] = %v, want %v; by the log-probability %v", c.mode, c.weights, i, k,
						got[i][k], w, grads[i].Logprob[k])
				}
			}
		}
	}
}

func TestDistillAsksForItsDivergence(t *testing.T) {
	for divergence, want := range map[string]trinity.Divergence{"": {Kind: trinity.ReverseKL},
		"forward_kl": {Kind: trinity.ForwardKL}, "jsd": {Kind: trinity.JSD, Beta: 0.5}} {
		args := map[string]any{}
		if divergence != "" {
			args["divergence"] = divergence
		}
		if got := mustPolicy(t, "distill", args).(Comparer).Compares(); got != want {
			t.Errorf("%q: %+v, want %+v", divergence, got, want)
		}
	}
	if got := NewComposite(mustPolicy(t, "ppo", nil), nil, &noEntropy{}).Streams(); got != (trinity.Streams{}) {
		t.Errorf("ppo asks for %+v", got)
	}
}

func TestDistillChecksItsArguments(t *testing.T) {
	type args = map[string]any
	for _, c := range []struct {
		args args
		want string
	}{
		{args{"divergence": "kl"}, "forward_kl, reverse_kl or jsd"},
		{args{"divergence": "jsd", "beta": 0}, "more than 0"},
		{args{"divergence": "jsd", "beta": 1}, "less than 1"},
		{args{"divergence": "jsd", "beta": math.NaN()}, "less than 1"},
		{args{"beta": 0.3}, "no effect on reverse_kl"},
		{args{"loss_agg_mode": "meen"}, "want token-mean, seq-mean-token-sum, seq-mean-token-mean or seq-mean-token-sum-norm"},
	} {
		if _, err := PolicyLosses.Build("distill", c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.args, err, c.want)
		}
	}
	e := seq(0, []float32{-1}, []float32{-1})
	_, _, err := NewComposite(mustPolicy(t, "distill", nil), nil, &noEntropy{}).Loss(whole(e), []trinity.TokenStats{at(-1)})
	if err == nil || !strings.Contains(err.Error(), "0 values of divergence for 2 tokens") {
		t.Errorf("an engine that gave no divergence: %v", err)
	}
}
