package advantage

import "github.com/trinity-go/trinity"

// perGroup writes the advantages that score makes of the rewards of each group, in the order of its experiences. What has no valid reward is
// left out. Metrics: group_advantages/reward_mean/{mean,max,min} and group_advantages/reward_std/{mean,max,min} over groups (groups of one
// without std), and invalid_count (experiences left out).
func perGroup(groups []trinity.Group, score func(g trinity.Group, rewards []float64) []float64) (kept []trinity.Group, metrics trinity.Metrics, err error) {
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

// scoredGroups returns the groups without invalid rewards, where any are left, with their rewards, and sets the metrics of [perGroup].
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

// minus returns each reward less a baseline.
func minus(rewards []float64, baseline float64) []float64 {
	out := make([]float64, len(rewards))
	for i, r := range rewards {
		out[i] = r - baseline
	}
	return out
}
