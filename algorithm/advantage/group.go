package advantage

import "github.com/trinity-go/trinity"

// perGroup writes the advantages that score makes of the rewards of each group, in the order of its experiences. What has no valid reward is
// left out. Metrics: group_advantages/reward_mean/{mean,max,min} and group_advantages/reward_std/{mean,max,min} over groups (groups of one
// without std), and invalid_count (experiences left out).
func perGroup(groups []trinity.Group, score func(g trinity.Group, rewards []float64) []float64) (kept []trinity.Group, metrics trinity.Metrics, err error) {
	metrics = trinity.Metrics{"invalid_count": 0}
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
		for i, a := range score(g, r) {
			write(g[i], a)
		}
		kept = append(kept, g)
	}
	summarize(metrics, "group_advantages/reward_mean", means)
	summarize(metrics, "group_advantages/reward_std", stds)
	return kept, metrics, nil
}

// minus returns each reward less a baseline.
func minus(rewards []float64, baseline float64) []float64 {
	out := make([]float64, len(rewards))
	for i, r := range rewards {
		out[i] = r - baseline
	}
	return out
}
