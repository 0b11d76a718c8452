package trinitytest

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
)

// steps returns new input steps for an operator. Rewards have the part "accuracy". Some experiences
// have a metric and an info called "length", others have neither.
func steps() map[string][]trinity.Group {
	nan, failed := math.NaN(), trinity.InvalidReward("timeout")
	scored := func(v float64) trinity.Reward { return trinity.NewReward(map[string]float64{"accuracy": v}) }
	claims := func(v float64) trinity.Reward { return trinity.Reward{Value: v, Valid: true} }
	mixed := group(1, failed, scored(1), scored(0), claims(nan), claims(math.Inf(1)), claims(math.Inf(-1)), trinity.Reward{})
	mixed[1].Truncated, mixed[2].Truncated = trinity.ResponseTruncated, trinity.PromptTruncated
	return map[string][]trinity.Group{
		"none":        nil,
		"empty":       {},
		"empty group": {nil, group(1, scored(1), scored(0)), {}},
		"all failed":  {group(1, failed, failed), group(2, trinity.Reward{}, claims(nan))},
		"one":         {group(1, scored(0))},
		"alike":       {group(1, scored(1), scored(1)), group(2, scored(0), scored(0)), group(3, scored(-1), scored(-1))},
		"mixed":       {group(0, scored(0.5), scored(0.25), scored(0)), mixed, group(2, failed), group(3, scored(-1), scored(2), scored(1))},
	}
}

func group(task int, rewards ...trinity.Reward) trinity.Group {
	var g trinity.Group
	for i, r := range rewards {
		e := &trinity.Experience{
			ID: trinity.ExperienceID{Step: 1, Task: fmt.Sprintf("taskset/%d", task), Run: i}, Tokens: []int32{1, 2, 3},
			Mask:     []bool{false, true, true},
			Logprobs: []float32{0, -1, -2}, PromptLen: 1, Reward: r,
		}
		if i%3 != 1 {
			e.Metrics, e.Info = map[string]float64{"length": float64(2 + i)}, map[string]any{"length": float64(2 + i)}
		}
		g = append(g, e)
	}
	return g
}
