package operator

import (
	"context"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("top_k_filter",
		"Keeps the `k` rollouts with the highest valid rewards; the earlier one wins a tie. A rollout with "+
			"several steps has the reward of its last step, and stays or goes as a whole. Replies and judgements of "+
			"them are compared apart. Metrics: filtered_count (experiences), top_k_reward_threshold (the lowest reward that stays, as a mean over "+
			"groups).",
		func() trinity.Operator { return &topK{Scope: perGroup} })
}

// topK keeps the rollouts with the highest rewards.
type topK struct {
	K     int   `yaml:"k" range:"[1,)" doc:"rollouts to keep"`
	Scope Scope `yaml:"scope" enum:"group|step" doc:"group keeps k of each task, step keeps k of all tasks"`
}

// Process implements trinity.Operator.
func (f *topK) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	best := selection{}
	lowest := map[string][]float64{} // by part
	for _, part := range f.Scope.compared(groups) {
		part = slices.DeleteFunc(part, func(r trinity.Group) bool { return !scored(outcome(r)) })
		slices.SortStableFunc(part, func(a, b trinity.Group) int {
			switch x, y := outcome(a).Reward.Value, outcome(b).Reward.Value; {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0
		})
		part = part[:min(f.K, len(part))]
		for _, r := range part {
			best.add(r)
		}
		if len(part) > 0 {
			last := outcome(part[len(part)-1])
			lowest[last.Part] = append(lowest[last.Part], last.Reward.Value)
		}
	}
	kept, metrics := keep(groups, best.has)
	for part, rewards := range lowest {
		metrics[experience.MetricOf(part, "top_k_reward_threshold")] = mean(rewards)
	}
	return kept, metrics, nil
}
