package loss

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// Distill is the divergence between the policy's next-token distribution q and the teacher's, p,
// over the whole vocabulary, at every trained token. The engine computes it:
//
//	forward_kl  KL(p‖q) = Σ p·ln(p/q)
//	reverse_kl  KL(q‖p) = Σ q·ln(q/p)
//	jsd         beta·KL(p‖m) + (1−beta)·KL(q‖m),  m = beta·p + (1−beta)·q
//
// On a dataset this is word-level distillation (Hinton et al. 2015; Kim & Rush 2016). On rollouts
// of the policy it is on-policy distillation (Agarwal et al. 2024, equations 2 and 3 with λ = 1; Gu
// et al. 2024 explain why reverse_kl keeps a small student to what it can do). The gradient flows
// through q, not through the choice of the sampled tokens. Both distributions use the temperature
// at which the tokens were sampled. The loss reads no recorded log-probability and no advantage, so
// advantage_fn defaults to none: with the types on_policy_distill and jsd this loss replaces their
// estimates. It applies the weights of rollout correction.
//
// Metric: distill_loss (aggregated, nats).
//
// Unlike Trinity-RFT: the divergence covers whole distributions, because one teacher's logits give
// it exactly; its advantages on_policy_distill and jsd, which are here too, estimate it from the
// sampled token alone.
type distill struct {
	Agg        `yaml:",inline"`
	Divergence string  `yaml:"divergence" enum:"forward_kl|reverse_kl|jsd" doc:"forward_kl covers the teacher, reverse_kl stays within it"`
	Beta       float64 `yaml:"beta" range:"(0,1)" doc:"of jsd: the teacher's share of the mixture; at 0 and 1 jsd is always 0"`
}

const defaultBeta = 0.5

func init() {
	PolicyLosses.Register("distill",
		"Divergence from a teacher over the whole vocabulary: forward or reverse KL, or generalised JSD (Agarwal et al. 2024). "+
			"Needs a teacher and an engine that compares with it. Metric: distill_loss.",
		func() PolicyLoss {
			return &distill{Agg: Agg{TokenMean}, Divergence: trinity.ReverseKL, Beta: defaultBeta}
		})
}

// Validate refuses an unknown divergence, a beta outside (0, 1), and a beta that has no effect.
func (d *distill) Validate() error {
	if d.Divergence != trinity.JSD && d.Beta != defaultBeta {
		return fmt.Errorf("beta has no effect on %s: remove it, or set divergence: jsd", d.Divergence)
	}
	return nil
}

// Compares implements Comparer.
func (d *distill) Compares() trinity.Divergence {
	if d.Divergence != trinity.JSD {
		return trinity.Divergence{Kind: d.Divergence}
	}
	return trinity.Divergence{Kind: d.Divergence, Beta: d.Beta}
}

func (*distill) ReadsAdvantages() bool { return false }

func (d *distill) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	perToken, err := in.Weigh(in.Divergence)
	if err != nil {
		return tape.Stream{}, nil, err
	}
	total := in.Aggregate(d.LossAggMode, perToken, nil)
	return total, trinity.Metrics{"distill_loss": total.Scalar()}, nil
}
