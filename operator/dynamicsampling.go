package operator

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("dapo_dynamic_sampling",
		"Drops groups that are all right or all wrong, because their group-relative advantages are zero "+
			"(DAPO, Yu et al. 2025, §3.2). A rollout is right if its `metric_key` is more than "+
			"`correct_threshold`; the reward decides if the rollout lacks that number. Experiences without a "+
			"valid reward do not count, and judgements of replies are kept. The operator does not sample "+
			"replacements: the step has fewer groups. Metrics, in experiences: filtered_count, dropped_all_correct, dropped_all_wrong, "+
			"metric_missing_count (the reward decided).",
		func() trinity.Operator { return &dynamicSampling{MetricKey: accuracy} })
}

// dynamicSampling keeps groups in which some rollouts are right and some are wrong.
//
// Unlike Trinity-RFT: a rollout without a valid reward does not count and is no error, because it is
// neither right nor wrong; and a metric_key that no rollout of a step has is an error, unless it is
// the default, because a typing error would judge by another number.
type dynamicSampling struct {
	MetricKey        string  `yaml:"metric_key" required:"name a part of the reward, such as accuracy" doc:"says whether a rollout is right"`
	CorrectThreshold float64 `yaml:"correct_threshold" doc:"a rollout is right if its number is more than this"`
}

// Process implements trinity.Operator. It returns an error if experiences have rewards but none of
// them has the number that metric_key names. It keeps groups without any valid reward.
func (d *dynamicSampling) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	metrics := trinity.Metrics{"dropped_all_correct": 0, "dropped_all_wrong": 0}
	verdicts := verdicts{key: d.MetricKey, threshold: d.CorrectThreshold}
	dropped := selection{}
	for _, g := range replies(groups) {
		correct, counted := 0, 0
		for _, e := range g {
			right, known := verdicts.of(e)
			if known {
				counted++
			}
			if right {
				correct++
			}
		}
		switch {
		case counted > 0 && correct == counted:
			metrics["dropped_all_correct"] += float64(len(g))
			dropped.add(g)
		case counted > 0 && correct == 0:
			metrics["dropped_all_wrong"] += float64(len(g))
			dropped.add(g)
		}
	}
	kept, filtered := keep(groups, dropped.lacks)
	metrics.Merge("", filtered)
	if err := verdicts.report(metrics); err != nil {
		return nil, nil, err
	}
	return kept, metrics, nil
}
