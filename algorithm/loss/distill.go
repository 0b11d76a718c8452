package loss

import (
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/tape"
)

// Distill is the divergence of the policy's next-token distribution q from that of a teacher, p, over the whole vocabulary, at every trained
// token. The engine computes it:
//
//	forward_kl  KL(p‖q) = Σ p·ln(p/q)
//	reverse_kl  KL(q‖p) = Σ q·ln(q/p)
//	jsd         beta·KL(p‖m) + (1−beta)·KL(q‖m),  m = beta·p + (1−beta)·q
//
// On a dataset this is word-level distillation (Hinton et al. 2015; Kim & Rush 2016), on rollouts of the policy on-policy distillation
// (Agarwal et al. 2024, equations 2 and 3 with λ = 1; Gu et al. 2024 on why reverse_kl keeps a small student to what it can do). The gradient
// goes through q and not through which tokens were sampled. Both distributions are at the temperature that the tokens were sampled at. No
// recorded log-probability and no advantage is read, so that an advantage_fn which the file does not name is none: with the types on_policy_distill
// and jsd this loss takes the place of their estimates. Weights of rollout correction count.
//
// Metric: distill_loss (aggregated, nats).
//
// Unlike Trinity-RFT: the divergence is that of the whole distributions, because one teacher's logits tell it exactly; its advantages
// on_policy_distill and jsd, which are here too, estimate it from the one token that was sampled.
type Distill struct {
	Agg        `yaml:",inline"`
	Divergence string  `yaml:"divergence" doc:"forward_kl covers all that the teacher does, reverse_kl keeps to what it does, jsd is between the two"`
	Beta       float64 `yaml:"beta" doc:"of jsd: the teacher's share of the mixture; more than 0 and less than 1"`
}

const defaultBeta = 0.5

func init() {
	PolicyLosses.Register("distill", "Divergence from a teacher over the whole vocabulary: forward or reverse KL, or generalised JSD (Agarwal et al. 2024). "+
		"Needs a teacher and an engine that compares with it. Metric: distill_loss.",
		func() PolicyLoss {
			return &Distill{Agg: Agg{TokenMean}, Divergence: trinity.ReverseKL, Beta: defaultBeta}
		})
}

// Validate refuses an unknown divergence, and a beta that is no share or that nothing would read.
func (d *Distill) Validate() error {
	switch d.Divergence {
	case trinity.JSD:
		if !(d.Beta > 0 && d.Beta < 1) {
			return errors.New("beta must be more than 0 and less than 1: at its ends jsd is 0 whatever the student does")
		}
	case trinity.ForwardKL, trinity.ReverseKL:
		if d.Beta != defaultBeta {
			return fmt.Errorf("beta has no effect on %s: remove it, or set divergence: jsd", d.Divergence)
		}
	default:
		return fmt.Errorf("divergence %q: want forward_kl, reverse_kl or jsd", d.Divergence)
	}
	return d.LossAggMode.Check()
}

// Compares implements Comparer.
func (d *Distill) Compares() trinity.Divergence {
	if d.Divergence != trinity.JSD {
		return trinity.Divergence{Kind: d.Divergence}
	}
	return trinity.Divergence{Kind: d.Divergence, Beta: d.Beta}
}

func (*Distill) ReadsAdvantages() bool { return false }

func (d *Distill) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	perToken, err := in.Weigh(in.Divergence)
	if err != nil {
		return tape.Stream{}, nil, err
	}
	total := in.Aggregate(d.LossAggMode, perToken, nil)
	return total, trinity.Metrics{"distill_loss": total.Scalar()}, nil
}
