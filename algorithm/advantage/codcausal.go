package advantage

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
)

// episode is an experience of a pack with its return and score in the causal mode.
type episode struct {
	of     *trinity.Experience
	level  string  // scores of one level are weighted together
	value  float64 // G
	score  float64
	tokens float64 // trained ones
}

// place is the position of an episode in a pack.
type place struct {
	kind string
	k    int
}

// causal computes the advantages of the mode iterative_hint_e2e_causal.
func (a *cod) causal(groups []trinity.Group) (kept []trinity.Group, metrics trinity.Metrics, err error) {
	metrics = trinity.Metrics{"judge_format_error_count": 0, "invalid_count": 0, "active_weight_temp_mean": 0}
	levels := map[string][]*episode{}
	var order []string
	for i, g := range groups {
		left, err := a.wellFormed(g, metrics)
		if err != nil {
			return nil, nil, err
		}
		if len(left) == 0 {
			continue
		}
		pack, err := a.episodes(left, fmt.Sprint(i))
		if err != nil {
			return nil, nil, err
		}
		for _, ep := range pack {
			if levels[ep.level] == nil {
				order = append(order, ep.level)
			}
			levels[ep.level] = append(levels[ep.level], ep)
		}
		kept = append(kept, left)
	}
	var temps []float64
	for _, level := range order {
		if t, used := a.settle(levels[level]); used {
			temps = append(temps, t)
		}
	}
	metrics["active_weight_temp_mean"] = mean(temps)
	return kept, metrics, nil
}

// wellFormed drops experiences that a judge found malformed, and those without a valid reward.
func (a *cod) wellFormed(g trinity.Group, metrics trinity.Metrics) (trinity.Group, error) {
	var left trinity.Group
	for _, e := range g {
		if e.Info["judge_format_error"] == true || e.Info["judge_format_error_in_trajectory"] == true {
			metrics["judge_format_error_count"]++
			continue
		}
		left = append(left, e)
	}
	valid, err := scored(left)
	metrics["invalid_count"] += float64(len(left) - len(valid))
	return valid, err
}

// episodes scores the experiences of a pack.
func (a *cod) episodes(g trinity.Group, task string) ([]*episode, error) {
	first := map[place]map[int]*episode{} // by place and run, the episode of the lowest turn
	places := make([]place, len(g))
	out := make([]*episode, len(g))
	for i, e := range g {
		p, rewards, err := laterRewards(e)
		if err != nil {
			return nil, err
		}
		level, err := a.level(e, task)
		if err != nil {
			return nil, err
		}
		out[i], places[i] = &episode{of: e, level: level, value: a.worth(rewards), tokens: float64(e.TrainedTokens())}, p
		if first[p] == nil {
			first[p] = map[int]*episode{}
		}
		if before := first[p][e.ID.Run]; before == nil || e.ID.Turn < before.of.ID.Turn {
			first[p][e.ID.Run] = out[i]
		}
	}
	for i, ep := range out {
		var values []float64
		for _, other := range out { // in the group's order, so that the sum has one rounding
			if first[places[i]][other.of.ID.Run] == other {
				values = append(values, other.value)
			}
		}
		ep.score = ep.value - mean(values)
	}
	return out, nil
}

// laterRewards returns the place of an episode and g, the rewards that it gets credit for.
func laterRewards(e *trinity.Experience) (place, []float64, error) {
	rewards, err := list(e, "task_rewards")
	if err != nil {
		return place{}, nil, err
	}
	kind, _ := e.Info["exp_type"].(string)
	key, from := "task_idx", 0
	switch kind {
	case "solve_task":
	case "gen_hint":
		key, from = "hint_idx", 1
	default:
		return place{}, nil, fmt.Errorf("experience %s: info exp_type is %v, want solve_task or gen_hint", e.ID, e.Info["exp_type"])
	}
	at, ok, err := number(e, key)
	if err != nil {
		return place{}, nil, err
	}
	k := int(at)
	if !ok || at != math.Trunc(at) || k < 0 || k >= len(rewards) {
		return place{}, nil, fmt.Errorf("experience %s: info %s is %v, want the index of one of its %d task_rewards", e.ID, key,
			e.Info[key], len(rewards))
	}
	rewards = rewards[k+from:]
	if kind == "gen_hint" {
		rewards = append([]float64{e.Reward.Value}, rewards...)
	}
	return place{kind, k}, rewards, nil
}

// worth returns G.
func (a *cod) worth(rewards []float64) float64 {
	switch a.E2ECausalReturnsStyle {
	case "sliding_window_mean":
		return mean(rewards[:min(a.E2ECausalReturnsWindow, len(rewards))])
	case "discounted":
		sum := 0.0
		for i := len(rewards) - 1; i >= 0; i-- {
			sum = rewards[i] + a.E2ECausalReturnsGamma*sum
		}
		return sum
	}
	return mean(rewards)
}

// level returns the name of the set of experiences that are weighted and shifted together.
func (a *cod) level(e *trinity.Experience, task string) (string, error) {
	switch {
	case a.RedWeightAdaptiveLevel == nil:
		return "", nil
	case *a.RedWeightAdaptiveLevel == "task":
		return task, nil
	}
	id, ok := e.Info["taskset_id"]
	if !ok {
		return "", fmt.Errorf("experience %s has no info taskset_id, which red_weight_adaptive_level taskset needs", e.ID)
	}
	return fmt.Sprint(id), nil
}

// settle weights and shifts the scores of one level and writes the advantages. used reports whether
// it used a temperature.
func (a *cod) settle(episodes []*episode) (temp float64, used bool) {
	switch {
	case a.RedWeightAdaptiveTemp:
		temp, used = balance(episodes)
	case a.RedWeightTemp != nil:
		temp, used = *a.RedWeightTemp, true
	}
	shift := 0.0
	if a.RedWeightAdvantageShift {
		sum, tokens := 0.0, 0.0
		for _, ep := range episodes {
			sum, tokens = sum+ep.score*ep.tokens, tokens+ep.tokens
		}
		shift = min(0, sum/max(1, tokens))
	}
	for _, ep := range episodes {
		score := ep.score
		if used {
			score *= weight(score, temp)
		}
		write(ep.of, score-shift)
		ep.of.Returns = make([]float32, len(ep.of.Mask))
		for t, trained := range ep.of.Mask {
			if trained {
				ep.of.Returns[t] = float32(ep.value)
			}
		}
	}
	return temp, used
}

// weight returns exp(score/T), bounded because a low T would exceed a float32.
func weight(score, temp float64) float64 { return math.Exp(min(score/temp, 20)) }

// Ends of the bisection, in units of reward. Below the lower end the weights would differ too much.
const coldest, hottest, closeEnough = 0.8, 100.0, 0.05

// balance returns the temperature that makes Σ score·exp(score/T)·tokens equal 0. It uses none if
// the plain sum is not negative.
func balance(episodes []*episode) (temp float64, used bool) {
	sum := func(weight func(score float64) float64) (s float64) {
		for _, ep := range episodes {
			s += ep.score * weight(ep.score) * ep.tokens
		}
		return s
	}
	if sum(func(float64) float64 { return 1 }) >= 0 {
		return 0, false
	}
	low, high := coldest, hottest
	for range 20 {
		temp = (low + high) / 2
		if sum(func(score float64) float64 { return weight(score, temp) }) < 0 {
			high = temp
		} else {
			low = temp
		}
		if high-low < closeEnough {
			break
		}
	}
	return temp, true
}
