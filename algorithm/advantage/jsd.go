package advantage

import (
	"context"
	"errors"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// JSD minimises the generalised Jensen–Shannon divergence between teacher T and student S at every
// token that the student sampled (Agarwal et al. 2024, eq. 3):
//
//	JSD_λ = λ·KL(T‖M) + (1 − λ)·KL(S‖M),  M = λ·T + (1 − λ)·S
//
// In its gradient by S, the first term gives −λ(1−λ)·Σ (T/M)·∇S and the second (1−λ)·Σ (ln(S/M) + 1
// − (1−λ)·S/M)·∇S. The parts without logarithms add up to 1 − (λT + (1−λ)S)/M = 0, so
//
//	∇JSD_λ = (1 − λ)·E_S[ ln(S/M)·∇ln S ]
//	A_t = −kl_coef·(1 − λ)·(ln S − ln M), at every trained token
//
// A is positive if the teacher finds the sampled token likelier than the student does, and negative
// otherwise. It ignores the effect on later tokens. At λ = 0 and λ = 1 JSD is 0 for all S, so the
// limit divided by the vanishing factor takes its place: λ → 0 gives JSD_λ/λ → KL(T‖S), the forward
// KL, with A = kl_coef·(T/S − 1); λ → 1 gives JSD_λ/(1−λ) → KL(S‖T), with A = kl_coef·(ln T − ln
// S), as in on_policy_distill. ln T − ln S is clamped to ±20 in T/S. temperature divides both
// log-probabilities, which then belong to no distribution; the derivation holds for 1. Rewards are
// not read, so rollouts without a valid reward are trained on like all others. Demonstrations have
// A = 0.
//
// Metrics, over trained tokens: jsd/mean and jsd/std (std over n − 1) of λ·(T/S)·ln(T/M) +
// (1−λ)·ln(S/M), nats, which is never negative and has the mean JSD_λ (or its limit). The trainer
// adds advantages/mean.
//
// Unlike Trinity-RFT: A has both signs and follows the gradient, because −JSD estimated on the
// sampled token, as there, is never negative and largest where teacher and student disagree most,
// in either direction, so it pulls nothing towards the teacher.
type jsd struct {
	LambdaCoef  float64 `yaml:"lambda_coef" range:"[0,1]" doc:"share of the teacher in the mixture: 0 is the forward KL, 1 the reverse KL"`
	KLCoef      float64 `yaml:"kl_coef" range:"(0,)" doc:"factor of the advantage"`
	Temperature float64 `yaml:"temperature" range:"(0,)" doc:"divides both log-probabilities"`
	ChunkSize   *int    `yaml:"chunk_size" doc:"must be null: tokens are processed one by one, so there is no memory to save"`
}

func init() {
	registry.Advantages.Register("jsd",
		"On-policy distillation by the generalised Jensen–Shannon divergence (Agarwal et al. 2024): −kl_coef·(1−λ)·(ln student "+
			"− ln mixture) at every trained token, its exact policy gradient. "+
			"Needs a teacher model; reads no reward.",
		func() trinity.Advantage { return &jsd{LambdaCoef: 0.5, KLCoef: 1, Temperature: 1} })
}

// Validate checks ranges.
func (a *jsd) Validate() error {
	if a.ChunkSize != nil {
		return errors.New("chunk_size has no effect, because tokens are processed one by one: remove it")
	}
	return nil
}

// Needs implements trinity.Advantage.
func (*jsd) Needs() trinity.Needs { return trinity.Needs{Batch: true, Teacher: true} }

// Advantages implements trinity.Advantage.
func (a *jsd) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return distill(groups, "jsd", func(student, teacher float64) (advantage, divergence float64) {
		d := (teacher - student) / a.Temperature
		descent, divergence := jensenShannon(a.LambdaCoef, d)
		return a.KLCoef * descent, divergence
	})
}

// jsdLimit bounds ln(T/S) in exponents.
const jsdLimit = 20

// jensenShannon returns, for a token with d = ln T − ln S, the weight of ∇ln S that descends JSD_λ,
// and the token's share of the divergence.
func jensenShannon(lambda, d float64) (descent, divergence float64) {
	bounded := min(max(d, -jsdLimit), jsdLimit)
	ratio := math.Exp(bounded)
	switch lambda {
	case 0:
		return ratio - 1, ratio*bounded - (ratio - 1)
	case 1:
		return d, ratio - 1 - bounded
	}
	return (1 - lambda) * mixture(lambda, d), lambda*ratio*(bounded-mixture(lambda, bounded)) - (1-lambda)*mixture(lambda, bounded)
}

// mixture returns ln M − ln S = ln(λ·eᵈ + 1 − λ), without overflow.
func mixture(lambda, d float64) float64 {
	if d > 0 {
		return d + math.Log(lambda+(1-lambda)*math.Exp(-d))
	}
	return math.Log1p(lambda * math.Expm1(d))
}
