// Command own_algorithm is trinity with an algorithm of its own: CISPO, written anew.
package main

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/algorithm/tape"
	"github.com/trinity-go/trinity/command"
	"github.com/trinity-go/trinity/registry"
)

// MyCISPO weighs the policy gradient of a token by its ratio, and clips the weight instead of the gradient (MiniMax-M1, Chen et al. 2025):
//
//	L = −A·sg(min(r, 1 + high))·lp
//
// Metrics: pg_loss (aggregated), clipped_frac (share of trained tokens with r > 1 + high).
type MyCISPO struct {
	loss.Agg `yaml:",inline"`
	High     float64 `yaml:"clip_range_high" range:"[0,inf]" doc:"the weight is at most 1 plus this"`
}

func init() {
	loss.PolicyLosses.Register("my_cispo", "Policy gradient with clipped importance weights: −A·sg(min(r, 1 + high))·lp. Metrics: pg_loss, clipped_frac.",
		func() loss.PolicyLoss { return &MyCISPO{Agg: loss.Agg{LossAggMode: loss.TokenMean}, High: 0.28} })

	registry.Algorithms.Register("my_cispo", "GRPO's advantage with clipped importance weights, without a reference model.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "default",
				Advantage: "grpo", PolicyLoss: "my_cispo", KLPenalty: "none", KLLoss: "none", Entropy: "default",
			}
		})
}

// Loss implements loss.PolicyLoss.
func (c *MyCISPO) Loss(in *loss.Input) (tape.Stream, trinity.Metrics, error) {
	adv, err := in.Advantages() // A
	if err != nil {
		return tape.Stream{}, nil, err
	}
	d, err := in.LogRatio() // lp − old, clamped to ±20
	if err != nil {
		return tape.Stream{}, nil, err
	}
	ratio := d.Exp().Detach() // sg(r)
	perToken := adv.Mul(ratio.Clamp(0, 1+c.High)).Mul(in.Logprob).Neg()
	total := in.Aggregate(c.LossAggMode, perToken, nil)
	return total, trinity.Metrics{
		"pg_loss":      total.Scalar(),
		"clipped_frac": in.MeanTrue(func(i int) bool { return ratio.Value()[i] > 1+c.High }),
	}, nil
}

func main() { command.Main() }
