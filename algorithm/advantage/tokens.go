package advantage

import (
	"context"

	"github.com/trinity-go/trinity"
)

// tokenRewards computes what each token earns. Advantages that tell tokens apart embed it. The last
// trained token earns the reward of the experience, all others 0. If the algorithm penalizes the
// distance from the reference model (Ouyang et al. 2022, eq. 2), every trained token loses the
// penalty.
type tokenRewards struct {
	penalty trinity.KLPenalty // nil for none
}

func (r *tokenRewards) penalize(penalty trinity.KLPenalty) { r.penalty = penalty }

// of returns the reward of each token [T] of each experience of a trainer batch with valid rewards,
// 0 at tokens that are not trained. It adds the metrics of the penalty: kl, kl_coef and
// rewards/{mean,max,min}, the rewards of whole experiences less the penalty. An experience without
// trained tokens earns nothing.
func (r *tokenRewards) of(ctx context.Context, batch []*trinity.Experience, metrics trinity.Metrics) ([][]float64, error) {
	out := make([][]float64, len(batch))
	for i, e := range batch {
		out[i] = make([]float64, len(e.Mask))
		if last := lastTrained(e); last >= 0 {
			out[i][last] = e.Reward.Value
		}
	}
	if r.penalty == nil || len(batch) == 0 {
		return out, nil
	}
	penalties, m, err := r.penalty(ctx, batch)
	if err != nil {
		return nil, err
	}
	metrics.Merge("", m)
	left := make([]float64, len(batch))
	for i, p := range penalties {
		for t := range p {
			out[i][t] -= p[t]
			left[i] += out[i][t]
		}
	}
	summarize(metrics, "rewards", left)
	return out, nil
}

// lastTrained returns the index of the last trained token; −1 for none.
func lastTrained(e *trinity.Experience) int {
	for t := len(e.Mask) - 1; t >= 0; t-- {
		if e.Mask[t] {
			return t
		}
	}
	return -1
}
