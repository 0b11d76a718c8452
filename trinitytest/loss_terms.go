package trinitytest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// KL checks the contract of KL functions. build returns a new, equal one each time; a host has opened it if it asks
// programs.
//
//   - Differences confirm the derivatives by the log-probabilities.
//   - Sums do not depend on micro-batches, and masked tokens have no effect and no gradient.
//   - The estimate of a token depends on that token alone.
//   - All numbers are finite: at log-ratios of ±50, without trained tokens, for one token.
//   - A second step does not remember the first.
//   - As a penalty it returns a number for each trained token, and their mean.
//
// A function whose weight is 0 is no term.
func KL(t *testing.T, build func() loss.KL) {
	weight := build().Controller().KLCoef
	if !finite(weight) || weight < 0 {
		t.Fatalf("kl_coef is %v, want a finite number, 0 or more", weight)
	}
	terms(t, func() *loss.Composite { return loss.NewComposite(silent{}, build(), nil) },
		func(s trinity.TokenStats) []float32 { return s.Logprob }, func(g trinity.TokenGrads) []float32 { return g.Logprob })
	t.Run("penalty", func(t *testing.T) { klPenalty(t, build()) })
	if weight == 0 {
		return
	}
	t.Run("tokens", func(t *testing.T) {
		s, l := rollouts(4), loss.NewComposite(silent{}, build(), nil)
		s.show(t, l)
		before, _ := s.run(t, l, []int{len(s.exps)})
		s.now[1].Logprob[2] -= 0.25
		s.show(t, l)
		after, _ := s.run(t, l, []int{len(s.exps)})
		for i, e := range s.exps {
			for k, g := range after[i].Logprob {
				if (i != 1 || k != 2) && g != before[i].Logprob[k] {
					t.Errorf("%s, token %d: its derivative depends on another token", e.ID, k)
				}
			}
		}
	})
}

// Entropy checks the contract of entropy terms, as [KL] does, by the entropies.
func Entropy(t *testing.T, build func() loss.Entropy) {
	if coef := build().Coef(); !finite(coef) {
		t.Fatalf("the coefficient is %v, want a finite number", coef)
	}
	terms(t, func() *loss.Composite { return loss.NewComposite(silent{}, nil, build()) },
		func(s trinity.TokenStats) []float32 { return s.Entropy }, func(g trinity.TokenGrads) []float32 { return g.Entropy })
}

// silent is a policy loss of 0.
type silent struct{}

// Loss implements [loss.PolicyLoss].
func (silent) Loss(in *loss.Input) (tape.Stream, trinity.Metrics, error) {
	return in.Tape.Value(0), trinity.Metrics{"pg_loss": 0}, nil
}

// ReadsAdvantages returns false.
func (silent) ReadsAdvantages() bool { return false }

// terms checks a term by a stream of the engine.
func terms(
	t *testing.T, compose func() *loss.Composite, stream func(trinity.TokenStats) []float32, grad func(trinity.TokenGrads) []float32,
) {
	// run computes a step. The derivatives by the stream are at Logprob.
	run := func(t *testing.T, s *lossStep, l *loss.Composite, cut []int) ([]trinity.TokenGrads, trinity.Metrics) {
		t.Helper()
		s.show(t, l)
		grads, metrics := s.run(t, l, cut)
		for i := range grads {
			if grads[i].Logprob = grad(grads[i]); grads[i].Logprob == nil { // the term has no derivative
				grads[i].Logprob = make([]float32, len(s.exps[i].Mask))
			}
		}
		s.sound(t, grads, metrics)
		return grads, metrics
	}
	t.Run("differences", func(t *testing.T) {
		s, l, rng := entropic(rollouts(1)), compose(), rand.New(rand.NewPCG(1, 1))
		grads, _ := run(t, s, l, []int{len(s.exps)})
		for range 3 {
			const h = 1.0 / 4096
			moved := [2]*lossStep{{exps: s.exps}, {exps: s.exps}}
			want, scale := 0.0, 0.0
			for i, e := range s.exps {
				up, down := clonedStats(s.now[i]), clonedStats(s.now[i])
				for k, trained := range e.Mask {
					if d := float32(h * float64(rng.IntN(3)-1)); trained {
						stream(up)[k], stream(down)[k] = stream(up)[k]+d, stream(down)[k]-d
						change := float64(stream(up)[k]-stream(down)[k]) * float64(grads[i].Logprob[k])
						want, scale = want+change, scale+math.Abs(change)
					}
				}
				moved[0].now, moved[1].now = append(moved[0].now, up), append(moved[1].now, down)
			}
			_, high := run(t, moved[0], l, []int{len(s.exps)})
			_, low := run(t, moved[1], l, []int{len(s.exps)})
			if got := high["final_loss"] - low["final_loss"]; math.Abs(got-want) > 0.005*scale+1e-9 {
				t.Errorf("the loss changes by %v, and its derivatives say %v", got, want)
			}
		}
	})
	t.Run("cuts", func(t *testing.T) {
		s, l := entropic(rollouts(2)), compose()
		grads, metrics := run(t, s, l, []int{len(s.exps)})
		for _, cut := range s.cuts(l) {
			g, m := run(t, s, l, cut)
			sameLoss(t, s.exps, g, grads, m, metrics)
		}
	})
	t.Run("masks", func(t *testing.T) {
		s, l := entropic(rollouts(3)), compose()
		grads, metrics := run(t, s, l, []int{len(s.exps)})
		for i, e := range s.exps {
			for k, trained := range e.Mask {
				for _, v := range [][]float32{e.Logprobs, e.RefLogprobs, s.now[i].Logprob, s.now[i].Entropy} {
					if !trained {
						v[k] = float32(100 * (k + 1))
					}
				}
			}
		}
		g, m := run(t, s, l, []int{len(s.exps)})
		sameLoss(t, s.exps, g, grads, m, metrics)
	})
	t.Run("repeats", func(t *testing.T) {
		s, other, l := entropic(rollouts(5)), entropic(rollouts(6)), compose()
		grads, metrics := run(t, s, l, []int{len(s.exps)})
		run(t, other, l, []int{len(other.exps)})
		g, m := run(t, s, l, []int{len(s.exps)})
		sameLoss(t, s.exps, g, grads, m, metrics)
	})
	for name, s := range lossCorners(1) {
		t.Run(name, func(t *testing.T) { run(t, entropic(s), compose(), []int{len(s.exps)}) })
	}
}

// entropic gives the engine's statistics of a step entropies.
func entropic(s *lossStep) *lossStep {
	for i := range s.now {
		s.now[i].Entropy = slices.Clone(s.now[i].Divergence)
	}
	return s
}

func clonedStats(s trinity.TokenStats) trinity.TokenStats {
	s.Logprob, s.Entropy = slices.Clone(s.Logprob), slices.Clone(s.Entropy)
	return s
}

// klPenalty takes the function as a penalty of a batch.
func klPenalty(t *testing.T, kl loss.KL) {
	s := rollouts(7)
	out, metrics, err := loss.NewPenalty(kl).Of(t.Context(), s.exps)
	if err != nil {
		t.Fatal(err)
	}
	mean, sequences := 0.0, 0.0
	for i, e := range s.exps {
		if len(out[i]) != len(e.Mask) {
			t.Fatalf("%s: %d penalties for %d tokens", e.ID, len(out[i]), len(e.Mask))
		}
		sum := 0.0
		for k, p := range out[i] {
			if !finite(p) || !e.Mask[k] && p != 0 {
				t.Errorf("%s, token %d (trained on: %v): penalty %v", e.ID, k, e.Mask[k], p)
			}
			sum += p
		}
		if n := e.TrainedTokens(); n > 0 {
			mean, sequences = mean+sum/float64(n), sequences+1
		}
	}
	if want := metrics["kl"] * metrics["kl_coef"]; !close6(mean/sequences, want) {
		t.Errorf("the mean penalty is %v, and kl · kl_coef %v", mean/sequences, want)
	}
}
