package advantage

import (
	"context"
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// GiGPO is the two-level advantage of group-in-group policy optimization (Feng et al. 2025, eqs. 3,
// 6 and 8) for rollouts of several steps:
//
//	A = A^E + ω·A^S, at every trained token of a step
//	A^E = norm(R_run) over the runs of a task,                        R_run = Σ_t r_t
//	A^S = norm(R_t) over the steps of the task in the same state,     R_t = Σ_{k≥t} γ^{k−t}·r_k
//	norm(x) = (x − mean) / (d + ε),  d = std over n − 1 with fnorm std, else 1
//
// r_t is Info[step_reward_key] of step t. If no step of a run has it, the last step has the reward
// and the others 0. If only some steps have it, the others have 0. The state is
// Info[env_state_hash_key], text or a number: the state of the environment before the step. A step
// without a state, or alone in its state, has A^S = 0. A single run has mean 0 and d = 1. A run
// whose last step has no valid reward is dropped with all its steps.
//
// Metrics: gigpo/episode_reward_mean/{mean,max,min} and gigpo/episode_reward_std/{mean,max,min} (d)
// over tasks; gigpo/anchor_groups_total (states), gigpo/anchor_groups_size_gt1 (states visited more
// than once), gigpo/anchor_group_hit_ratio (their share); gigpo/mean_abs_A_E and gigpo/mean_abs_A_S
// over steps; invalid_count.
//
// Unlike Trinity-RFT: steps are compared within a task, as in the paper, because the same state has
// another value in another task.
type gigpo struct {
	Omega           float64 `yaml:"omega" range:"(,)" doc:"weight of the step's advantage, added to the run's"`
	Gamma           float64 `yaml:"gamma" range:"[0,1]" doc:"discount of a reward per step"`
	FNorm           string  `yaml:"fnorm" enum:"std|none" doc:"divide by the standard deviation (std), or do not divide (none)"`
	Epsilon         float64 `yaml:"epsilon" range:"(0,)" doc:"added to the divisor"`
	StepRewardKey   string  `yaml:"step_reward_key" required:"name an entry of info" doc:"entry of Info with the reward of a step"`
	EnvStateHashKey string  `yaml:"env_state_hash_key" required:"name an entry of info" doc:"entry of Info that identifies the state"`
}

func init() {
	registry.Advantages.Register("gigpo",
		"Group-in-group policy optimization (Feng et al. 2025): the run's return against the task's other runs, plus omega "+
			"times the return from a step on against the "+
			"other steps of the task in the same environment state. Drops runs without a valid outcome.",
		func() trinity.Advantage {
			return &gigpo{Omega: 1, Gamma: 1, FNorm: "none", Epsilon: 1e-6, StepRewardKey: "step_reward", EnvStateHashKey: "env_state_hash"}
		})
}

// Needs implements trinity.Advantage.
func (*gigpo) Needs() trinity.Needs { return trinity.Needs{Group: true, Steps: true} }

// Advantages implements trinity.Advantage.
func (a *gigpo) Advantages(_ context.Context, groups []trinity.Group) (kept []trinity.Group, metrics trinity.Metrics, err error) {
	metrics = trinity.Metrics{"invalid_count": 0}
	var s gigpoStats
	for _, g := range groups {
		runs, left, err := scoredRuns(g)
		if err != nil {
			return nil, nil, err
		}
		metrics["invalid_count"] += float64(len(g) - len(left))
		if len(runs) == 0 {
			continue
		}
		if err := a.group(runs, &s); err != nil {
			return nil, nil, err
		}
		kept = append(kept, left)
	}
	s.report(metrics)
	return kept, metrics, nil
}

// group writes the advantages of the runs of a task.
func (a *gigpo) group(runs []run, s *gigpoStats) error {
	episodes := make([]float64, len(runs))
	states := map[string][]int{} // places of the steps in each state
	var returns []float64        // of all steps, run after run
	for i, steps := range runs {
		r, err := a.stepRewards(steps)
		if err != nil {
			return err
		}
		for t := len(r) - 1; t >= 0; t-- {
			episodes[i] += r[t]
			if t+1 < len(r) {
				r[t] += a.Gamma * r[t+1]
			}
		}
		for t, e := range steps {
			state, err := a.state(e)
			if err != nil {
				return err
			}
			if state != "" {
				states[state] = append(states[state], len(returns)+t)
			}
		}
		returns = append(returns, r...)
	}
	step := a.compareSteps(returns, states, s)
	episode, scale := a.normalize(episodes)
	s.means, s.scales = append(s.means, mean(episodes)), append(s.scales, scale)
	at := 0
	for i, steps := range runs {
		for _, e := range steps {
			write(e, episode[i]+a.Omega*step[at])
			s.episode, s.step = append(s.episode, math.Abs(episode[i])), append(s.step, math.Abs(step[at]))
			at++
		}
	}
	return nil
}

// compareSteps returns A^S of each step.
func (a *gigpo) compareSteps(returns []float64, states map[string][]int, s *gigpoStats) []float64 {
	out := make([]float64, len(returns))
	for _, steps := range states {
		s.states++
		if len(steps) < 2 {
			continue
		}
		s.met++
		x := make([]float64, len(steps))
		for i, at := range steps {
			x[i] = returns[at]
		}
		x, _ = a.normalize(x)
		for i, at := range steps {
			out[at] = x[i]
		}
	}
	return out
}

// normalize returns norm(x) and d.
func (a *gigpo) normalize(x []float64) (scores []float64, d float64) {
	center, d := mean(x), 1.0
	if len(x) == 1 {
		center = 0
	}
	if a.FNorm == "std" && len(x) > 1 {
		d = sampleStd(x)
	}
	scores = minus(x, center)
	for i := range scores {
		scores[i] /= d + a.Epsilon
	}
	return scores, d
}

// stepRewards returns r_t of each step.
func (a *gigpo) stepRewards(steps run) ([]float64, error) {
	r, found := make([]float64, len(steps)), false
	for t, e := range steps {
		v, ok, err := number(e, a.StepRewardKey)
		if err != nil {
			return nil, err
		}
		r[t], found = v, found || ok
	}
	if !found {
		r[len(r)-1] = steps.last().Reward.Value
	}
	return r, nil
}

// state returns a key for the state before a step, or "" if it is unknown.
func (a *gigpo) state(e *trinity.Experience) (string, error) {
	switch raw := e.Info[a.EnvStateHashKey].(type) {
	case nil:
		return "", nil
	case string:
		return raw, nil
	case int, int32, int64, uint, uint32, uint64:
		return fmt.Sprint(raw), nil // a float64 would not tell large hashes apart
	default:
		v, ok := asNumber(raw)
		if !ok {
			return "", fmt.Errorf("experience %s: info %s is %v, want text or a number", e.ID, a.EnvStateHashKey, raw)
		}
		return fmt.Sprint(v), nil
	}
}

// gigpoStats collects the metrics.
type gigpoStats struct {
	states, met   int
	means, scales []float64 // of tasks
	episode, step []float64 // |A^E| and |A^S| of steps
}

func (s *gigpoStats) report(m trinity.Metrics) {
	summarize(m, "gigpo/episode_reward_mean", s.means)
	summarize(m, "gigpo/episode_reward_std", s.scales)
	m["gigpo/anchor_groups_total"], m["gigpo/anchor_groups_size_gt1"] = float64(s.states), float64(s.met)
	m["gigpo/anchor_group_hit_ratio"] = float64(s.met) / float64(max(1, s.states))
	m["gigpo/mean_abs_A_E"], m["gigpo/mean_abs_A_S"] = mean(s.episode), mean(s.step)
}
