package advantage

import (
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
)

// penalizeLikely multiplies reward i by 1 − p·rank/n, which moves it towards 0. Ranks 0 … n−1 are
// in ascending order of the mean recorded log-probability.
func penalizeLikely(g trinity.Group, r []float64, p float64) error {
	likelihood := make([]float64, len(g))
	order := make([]int, len(g))
	for i, e := range g {
		m, err := meanLogprob(e)
		if err != nil {
			return err
		}
		likelihood[i], order[i] = m, i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case likelihood[a] < likelihood[b]:
			return -1
		case likelihood[a] > likelihood[b]:
			return 1
		}
		return 0
	})
	for rank, i := range order {
		r[i] *= 1 - p*float64(rank)/float64(len(g))
	}
	return nil
}

// meanLogprob returns the mean over trained tokens, nats; −∞ without any.
func meanLogprob(e *trinity.Experience) (float64, error) {
	n := e.TrainedTokens()
	if n == 0 {
		return math.Inf(-1), nil
	}
	if len(e.Logprobs) != len(e.Mask) {
		return 0, fmt.Errorf("experience %s has %d logprobs for %d tokens, which rank_penalty needs", e.ID, len(e.Logprobs), len(e.Mask))
	}
	sum := 0.0
	for t, trained := range e.Mask {
		if trained {
			sum += float64(e.Logprobs[t])
		}
	}
	return sum / float64(n), nil
}
