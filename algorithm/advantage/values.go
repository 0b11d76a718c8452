package advantage

import (
	"context"
	"math"

	"github.com/trinity-go/trinity"
)

// estimator returns the advantage A of each trained token [T], 0 elsewhere, from the rewards of the
// tokens and the values of the states in which they were chosen.
type estimator func(mask []bool, rewards, values []float64) []float64

// actorCritic writes, for the rollouts with a valid reward, the returns A + V, which the critic
// learns, and finish(A) as advantages.
func (r *tokenRewards) actorCritic(ctx context.Context, groups []trinity.Group, estimate estimator,
	finish func(batch []*trinity.Experience, a [][]float64) [][]float64) ([]trinity.Group, trinity.Metrics, error) {
	metrics := trinity.Metrics{}
	kept, batch, err := sampled(groups, metrics)
	if err != nil {
		return nil, nil, err
	}
	rewards, err := r.of(ctx, batch, metrics)
	if err != nil {
		return nil, nil, err
	}
	estimates := make([][]float64, len(batch))
	for i, e := range batch {
		values, err := valuesOf(e)
		if err != nil {
			return nil, nil, err
		}
		estimates[i] = estimate(e.Mask, rewards[i], values)
		for t, a := range estimates[i] {
			values[t] += a
		}
		e.Returns = narrow(values)
	}
	for i, a := range finish(batch, estimates) {
		batch[i].Advantages = narrow(a)
	}
	return kept, metrics, nil
}

// valuesOf returns the critic's values [T], 0 at tokens that are not trained.
func valuesOf(e *trinity.Experience) ([]float64, error) {
	if err := needed(e, "values", "of a critic, which the trainer has", e.Values); err != nil {
		return nil, err
	}
	out := make([]float64, len(e.Mask))
	for t, trained := range e.Mask {
		if trained {
			out[t] = float64(e.Values[t])
		}
	}
	return out, nil
}

// generalized returns the advantage estimator of Schulman et al. 2016 (arXiv 1506.02438, eq. 16):
//
//	δ_t = r_t + γ·V_t' − V_t
//	A_t = δ_t + γ·λ·A_t'
//
// with t' the next trained token. After the last one V and A are 0.
func generalized(gamma, lam float64) estimator {
	return func(mask []bool, rewards, values []float64) []float64 {
		out := make([]float64, len(mask))
		value, sum := 0.0, 0.0
		for t := len(mask) - 1; t >= 0; t-- {
			if mask[t] {
				sum = rewards[t] + gamma*value - values[t] + gamma*lam*sum
				value, out[t] = values[t], sum
			}
		}
		return out
	}
}

// nStep returns the estimator of the return of the next n trained tokens, plus the critic's value
// of what follows them, less the value before (Mnih et al. 2016, arXiv 1602.01783, §4):
//
//	A_t = r_t + γ·r_t' + … + γⁿ⁻¹·r_t⁽ⁿ⁻¹⁾ + γⁿ·V_t⁽ⁿ⁾ − V_t
//
// with t⁽ᵏ⁾ the k-th next trained token. After the last one r and V are 0.
func nStep(gamma float64, n int) estimator {
	far := math.Pow(gamma, float64(n))
	return func(mask []bool, rewards, values []float64) []float64 {
		var places []int // of trained tokens
		for t, trained := range mask {
			if trained {
				places = append(places, t)
			}
		}
		out := make([]float64, len(mask))
		window := 0.0 // r_t + … + γⁿ⁻¹·r_t⁽ⁿ⁻¹⁾
		for k := len(places) - 1; k >= 0; k-- {
			t, beyond := places[k], 0.0
			window = rewards[t] + gamma*window
			if k+n < len(places) {
				after := places[k+n]
				window -= far * rewards[after]
				beyond = far * values[after]
			}
			out[t] = window + beyond - values[t]
		}
		return out
	}
}
