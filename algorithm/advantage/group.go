package advantage

import "github.com/trinity-go/trinity"

// perGroup drops experiences without a valid reward and writes the advantages that score computes
// from the rewards of each group, in the order of its experiences. Metrics:
// group_advantages/reward_mean/{mean,max,min} and group_advantages/reward_std/{mean,max,min} over
// groups (groups of one have no std), and invalid_count (dropped experiences).
func perGroup(groups []trinity.Group, score func(g trinity.Group, rewards []float64) []float64) (kept []trinity.Group,
	metrics trinity.Metrics, err error) {
	metrics = trinity.Metrics{}
	kept, rewards, err := scoredGroups(groups, metrics)
	if err != nil {
		return nil, nil, err
	}
	for i, g := range kept {
		for j, a := range score(g, rewards[i]) {
			write(g[j], a)
		}
	}
	return kept, metrics, nil
}

// lessBaseline is [perGroup] with the advantage R − b, where b is the baseline of the group. It adds
// the metric group_advantages/group_baseline/{mean,max,min} of b over groups.
func lessBaseline(groups []trinity.Group, baseline func(rewards []float64) float64) ([]trinity.Group, trinity.Metrics, error) {
	var baselines []float64
	kept, metrics, err := perGroup(groups, func(_ trinity.Group, rewards []float64) []float64 {
		b := baseline(rewards)
		baselines = append(baselines, b)
		return minus(rewards, b)
	})
	if err != nil {
		return nil, nil, err
	}
	summarize(metrics, "group_advantages/group_baseline", baselines)
	return kept, metrics, nil
}

// scoredGroups returns the groups without invalid rewards, unless empty, with their rewards. It
// sets the metrics of [perGroup].
func scoredGroups(groups []trinity.Group, metrics trinity.Metrics) (valid []trinity.Group, scores [][]float64, err error) {
	metrics["invalid_count"] = 0
	var means, stds []float64
	for _, all := range groups {
		g, err := scored(all)
		if err != nil {
			return nil, nil, err
		}
		metrics["invalid_count"] += float64(len(all) - len(g))
		if len(g) == 0 {
			continue
		}
		r := rewards(g)
		means = append(means, mean(r))
		if len(r) > 1 {
			stds = append(stds, sampleStd(r))
		}
		valid, scores = append(valid, g), append(scores, r)
	}
	summarize(metrics, "group_advantages/reward_mean", means)
	summarize(metrics, "group_advantages/reward_std", stds)
	return valid, scores, nil
}

// minus returns each reward less the baseline.
func minus(rewards []float64, baseline float64) []float64 {
	out := make([]float64, len(rewards))
	for i, r := range rewards {
		out[i] = r - baseline
	}
	return out
}
