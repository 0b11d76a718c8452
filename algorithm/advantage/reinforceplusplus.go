package advantage

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// REINFORCE++ (Hu et al. 2025, §3) computes the returns of single tokens, normalised over the batch
// instead of the group.
//
//	G_t = r_t + γ·G_{t′}, with t′ the next trained token of the sequence
//	A_t = (G_t − mean) / √(std² + 1e-8), at every trained token
//
// r_t is the reward at the last trained token and 0 before it, less the KL penalty at every trained
// token if there is one (kl_penalty_fn). Mean and std (over n − 1) are over all trained tokens of
// the trainer's batch. If there is only one token, or all returns are equal, A = 0.
// Experience.Returns is G. Demonstrations have A = 0 and do not count.
//
// Metrics: invalid_count (experiences dropped for an invalid reward), and kl and kl_coef of the
// penalty.
//
// Unlike Trinity-RFT: tokens of an environment are skipped, because a discount counts the policy's
// own steps; and a batch with a single trained token is defined, because there it raises an error.
type reinforcePlusPlus struct {
	Gamma float64 `yaml:"gamma" range:"[0,1]" doc:"discount per trained token"`
	tokenRewards
}

func init() {
	registry.Advantages.Register("reinforceplusplus",
		"REINFORCE++ (Hu et al. 2025): the discounted return from each token on, less the KL penalty if there is one, "+
			"normalised over all trained tokens of the batch. "+
			"Drops rollouts without a valid reward.",
		func() trinity.Advantage { return &reinforcePlusPlus{Gamma: 1} })
}

// Needs implements trinity.Advantage: the statistics are the batch's.
func (a *reinforcePlusPlus) Needs() trinity.Needs {
	return trinity.Needs{Batch: true, PenalizeKL: a.penalize}
}

// Advantages implements trinity.Advantage.
func (a *reinforcePlusPlus) Advantages(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	metrics := trinity.Metrics{}
	kept, batch, err := sampled(groups, metrics)
	if err != nil {
		return nil, nil, err
	}
	returns, err := a.of(ctx, batch, metrics)
	if err != nil {
		return nil, nil, err
	}
	for i, e := range batch {
		discount(e, returns[i], a.Gamma)
	}
	for i, adv := range whiten(batch, returns) {
		batch[i].Advantages, batch[i].Returns = narrow(adv), narrow(returns[i])
	}
	return kept, metrics, nil
}

// discount replaces the rewards of tokens [T] by the returns from each trained token on, in place.
func discount(e *trinity.Experience, r []float64, gamma float64) {
	next := 0.0
	for t := len(r) - 1; t >= 0; t-- {
		if e.Mask[t] {
			r[t] += gamma * next
			next = r[t]
		}
	}
}
