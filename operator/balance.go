package operator

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("balance_filter",
		"Balances right and wrong rollouts within a group. The side with more rollouts keeps its first "+
			"`max_ratio` times the number of the other side. A rollout is right if its `metric_key` in its last "+
			"step is more than `correct_threshold`; the reward decides if the rollout lacks that number. The "+
			"filter passes on groups that are all right or all wrong (dapo_dynamic_sampling drops them), and "+
			"judgements of replies. Metrics: filtered_count (experiences), balanced_group_count (groups that lost any), metric_missing_count "+
			"(rollouts for which the reward decided).",
		func() trinity.Operator { return &balanceFilter{MetricKey: accuracy, MaxRatio: 1} })
}

// balanceFilter keeps as many right rollouts as wrong ones.
type balanceFilter struct {
	MetricKey        string  `yaml:"metric_key" required:"name a part of the reward, such as accuracy" doc:"says whether a rollout is right"`
	CorrectThreshold float64 `yaml:"correct_threshold" doc:"a rollout is right if its number is more than this"`
	MaxRatio         float64 `yaml:"max_ratio" range:"[1,inf]" doc:"rollouts of the larger side for each of the smaller side, rounded down"`
}

// Process implements trinity.Operator. It returns an error if rollouts have rewards but none of
// them has the metric.
func (b *balanceFilter) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	verdicts := verdicts{key: b.MetricKey, threshold: b.CorrectThreshold}
	surplus, balanced := selection{}, 0
	for _, g := range replies(groups) {
		var right, wrong []trinity.Group
		for _, r := range rollouts(g) {
			switch correct, known := verdicts.of(outcome(r)); {
			case known && correct:
				right = append(right, r)
			case known:
				wrong = append(wrong, r)
			}
		}
		if len(right) == 0 || len(wrong) == 0 {
			continue
		}
		before := len(surplus)
		for _, side := range [][2][]trinity.Group{{right, wrong}, {wrong, right}} {
			most := min(b.MaxRatio*float64(len(side[1])), float64(len(side[0])))
			for _, r := range side[0][int(most):] {
				surplus.add(r)
			}
		}
		if len(surplus) > before {
			balanced++
		}
	}
	kept, metrics := keep(groups, surplus.lacks)
	metrics["balanced_group_count"] = float64(balanced)
	if err := verdicts.report(metrics); err != nil {
		return nil, nil, err
	}
	return kept, metrics, nil
}
