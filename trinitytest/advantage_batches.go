package trinitytest

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
)

// advantageBatches returns new input batches for an advantage function, with every stream that one
// may need. Only the trainer passes demonstrations.
func advantageBatches(inTrainer bool) map[string][]trinity.Group {
	failed := trinity.InvalidReward("timeout")
	valid := func(v float64) trinity.Reward { return trinity.Reward{Value: v, Valid: true} }
	mixed := []trinity.Group{
		rolledOut(1, valid(1), failed, valid(0), valid(0.5), trinity.Reward{}), rolledOut(2, failed, failed), rolledOut(3, valid(-1), valid(2)),
		rolledOut(4, valid(0.25)), rolledOut(5, valid(1), valid(1), valid(1)),
	}
	if inTrainer {
		expert := rolledOut(6, trinity.Reward{})[0]
		expert.IsExpert, expert.Logprobs = true, nil
		mixed[0] = append(mixed[0], expert)
		mixed = append(mixed, trinity.Group{rolledOut(7, valid(0))[0]})
		mixed[len(mixed)-1][0].IsExpert = true
	}
	untrained, oneToken := rolledOut(1, valid(1), valid(0)), rolledOut(1, valid(1), valid(0))
	for i := range untrained {
		clear(untrained[i].Mask)
		clear(oneToken[i].Mask)
	}
	oneToken[0].Mask[2] = true
	far := rolledOut(1, valid(1e6), valid(-1e6), valid(0))
	for i, e := range far {
		for t := range e.TeacherLogprobs {
			e.TeacherLogprobs[t] = e.Logprobs[t] + float32(50*(i-1))
			e.Entropies[t], e.Discriminators[t] = 0, 0
		}
	}
	return map[string][]trinity.Group{
		"none":            nil,
		"mixed":           mixed,
		"all failed":      {rolledOut(1, failed, failed), rolledOut(2, trinity.Reward{})},
		"group of one":    {rolledOut(1, valid(0.7))},
		"groups of one":   {rolledOut(1, valid(0.7)), rolledOut(2, valid(0))},
		"equal":           {rolledOut(1, valid(-0.1), valid(-0.1), valid(-0.1)), rolledOut(2, valid(-0.1), valid(-0.1))},
		"one token":       {oneToken},
		"nothing trained": {untrained},
		"far apart":       {far},
		"several steps":   {stepped(1, 3, 1, 2), stepped(2, 2), stepped(3, 1, 1, 4)},
	}
}

// rolledOut returns a group of single-turn rollouts of different lengths. Each has two prompt
// tokens, sampled tokens with an environment's token between them, and a last token of the
// environment.
func rolledOut(task int, rewards ...trinity.Reward) trinity.Group {
	var g trinity.Group
	for run, r := range rewards {
		n := 6 + (task+run)%3
		e := &trinity.Experience{
			ID: trinity.ExperienceID{Step: 1, Task: fmt.Sprintf("taskset/%d", task), Run: run}, PromptLen: 2, Temperature: 1, Reward: r,
			Tokens: make([]int32, n), Mask: make([]bool, n), Info: map[string]any{"reward_baseline": 0.25, "env_state_hash": "start"},
		}
		at := 0.0
		stream := func(scale, shift float64) []float32 {
			at++
			v := make([]float32, n)
			for t := range v {
				if e.Mask[t] {
					v[t] = float32(shift + scale*math.Sin(at+float64(7*task+3*run+t)))
				}
			}
			return v
		}
		for t := 2; t < n-1; t++ {
			e.Mask[t] = t != 3
		}
		e.Logprobs, e.RefLogprobs, e.TeacherLogprobs = stream(1, -1.5), stream(1, -1.5), stream(1, -1.5)
		e.Values, e.Entropies, e.Discriminators = stream(0.5, 0.2), stream(0.5, 1), stream(0.1, 0)
		g = append(g, e)
	}
	return g
}

// stepped returns a group of rollouts with the given numbers of steps. All steps of a rollout have
// the reward of its outcome.
func stepped(task int, steps ...int) trinity.Group {
	var g trinity.Group
	for run, n := range steps {
		for turn := range n {
			e := rolledOut(task, trinity.Reward{Value: float64(run%2) + 0.5, Valid: true})[0]
			e.ID.Run, e.ID.Turn = run, turn
			e.Info = map[string]any{"reward_baseline": 0.5, "step_reward": 0.1 * float64(run+turn),
				"env_state_hash": []string{"start", "middle"}[turn%2]}
			g = append(g, e)
		}
	}
	return g
}
