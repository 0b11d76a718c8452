package loss

import (
	"github.com/trinity-go/trinity/algorithm/tape"
	"github.com/trinity-go/trinity/registry"
)

// KL estimates, per token, the Kullback–Leibler divergence of the policy from the reference model
// (Schulman, "Approximating KL divergence", 2020).
type KL interface {
	// Estimate returns the estimate [n], nats, of lp against ref, of the sequences of in. old is the
	// log-probabilities of the policy that sampled, nil if unknown.
	Estimate(in *Input, lp, ref tape.Stream, old *tape.Stream) tape.Stream
	// Controller returns the weight of the term.
	Controller() *KLController
}

// KLs are the registered estimators, for kl_loss_fn and kl_penalty_fn alike. "none" needs no
// reference model.
var KLs = registry.New[KL]("kl_fn",
	"how the distance from the reference model is estimated (algorithm.kl_loss_fn, algorithm.kl_penalty_fn)")

// KLController is the weight of a KL term: constant, or adaptive (Ziegler et al. 2019). An adaptive
// weight changes after each optimizer step:
//
//	kl_coef ← kl_coef · (1 + clip(KL/target_kl − 1, −0.2, 0.2) · min(1, sequences/horizon))
//
// KL is the step's kl_loss in the unit of loss_agg_mode (nats per token with token-mean, nats per
// sequence with seq-mean-token-sum). A step with more sequences than the horizon counts as one
// horizon, so kl_coef never changes its sign.
//
// Unlike Trinity-RFT: adaptive works, as a loss and as a penalty, because there it raises an error
// in a penalty and does nothing in a loss; and a step counts as one horizon at most.
type KLController struct {
	KLCoef   float64 `yaml:"kl_coef" range:"[0,)" doc:"weight of the term; 0 drops term and reference model; with adaptive, the first weight"`
	Adaptive bool    `yaml:"adaptive" need:"kl_coef,target_kl,horizon" doc:"adapt kl_coef until the KL is at target_kl"`
	TargetKL float64 `yaml:"target_kl" range:"[0,inf]" need:"adaptive" doc:"wanted KL, in the unit of loss_agg_mode"`
	Horizon  float64 `yaml:"horizon" range:"[0,inf]" need:"adaptive" doc:"sequences over which kl_coef adapts"`
}

// Controller returns the receiver, for types that embed it.
func (c *KLController) Controller() *KLController { return c }

// Next returns the weight after an optimizer step with this many sequences and the KL kl.
func (c *KLController) Next(coef, kl float64, sequences int) float64 {
	if !c.Adaptive {
		return coef
	}
	miss := min(max(kl/c.TargetKL-1, -0.2), 0.2)
	return coef * (1 + miss*min(1, float64(sequences)/c.Horizon))
}

// formulaKL is a KL estimate by one formula over the trained tokens, aggregated as the loss is.
type formulaKL struct {
	KLController `yaml:",inline"`
	formula      func(lp, ref tape.Stream, old *tape.Stream) tape.Stream
}

func (e *formulaKL) Estimate(_ *Input, lp, ref tape.Stream, old *tape.Stream) tape.Stream {
	return e.formula(lp, ref, old)
}

// noKL is the absent term. It takes the arguments of a term, and none has an effect.
type noKL struct {
	KLController `yaml:",inline"`
}

// Controller returns the weight 0, whatever the arguments are.
func (*noKL) Controller() *KLController { return &KLController{} }

// Estimate returns 0.
func (n *noKL) Estimate(_ *Input, lp, _ tape.Stream, _ *tape.Stream) tape.Stream {
	return lp.Detach().Scale(0)
}

const defaultKLCoef = 0.001

func init() {
	KLs.Register("none", "No KL term and no reference model.", func() KL { return &noKL{} })
	register("k1", "lp − ref: unbiased, high variance; as a loss its gradient has mean 0.", k1)
	register("k2", "½·(lp − ref)²: biased, low variance; its gradient is the gradient of the KL.", k2)
	register("k3", "exp(ref − lp) − 1 − (ref − lp): unbiased, low variance, never negative.", k3)
	register("low_var_kl", "k3 with ref − lp clamped to ±20 and the result to ±10.", lowVarianceKL)
	register("abs", "|lp − ref|.", absolute)
	register("corrected_k3",
		"clamp(exp(lp − old), 0, 2)·k3: k3 corrected for tokens that an older policy sampled; the ratio is differentiated too "+
			"(DeepSeek-V3.2). Plain k3 "+
			"if no log-probabilities were recorded.", correctedK3)
}

func register(name, doc string, formula func(lp, ref tape.Stream, old *tape.Stream) tape.Stream) {
	doc += " Estimate of the KL from the reference per token (Schulman 2020), aggregated as the loss is. Metrics: kl_loss " +
		"(without the coefficient), kl_coef."
	KLs.Register(name, doc, func() KL {
		return &formulaKL{KLController: KLController{KLCoef: defaultKLCoef}, formula: formula}
	})
}

func k1(lp, ref tape.Stream, _ *tape.Stream) tape.Stream { return lp.Sub(ref) }

func k2(lp, ref tape.Stream, _ *tape.Stream) tape.Stream { return lp.Sub(ref).Square().Scale(0.5) }

func k3(lp, ref tape.Stream, _ *tape.Stream) tape.Stream { return excess(ref.Sub(lp)) }

func lowVarianceKL(lp, ref tape.Stream, _ *tape.Stream) tape.Stream {
	return excess(ref.Sub(lp).Clamp(-20, 20)).Clamp(-10, 10)
}

func absolute(lp, ref tape.Stream, _ *tape.Stream) tape.Stream { return lp.Sub(ref).Abs() }

func correctedK3(lp, ref tape.Stream, old *tape.Stream) tape.Stream {
	if old == nil {
		return k3(lp, ref, nil)
	}
	return lp.Sub(*old).Exp().Clamp(0, 2).Mul(k3(lp, ref, nil))
}

// excess returns eˣ − 1 − x.
func excess(x tape.Stream) tape.Stream { return x.Exp().Plus(-1).Sub(x) }
