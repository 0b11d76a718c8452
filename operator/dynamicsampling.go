package operator

import (
	"context"
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("dapo_dynamic_sampling",
		"Drops groups that are all right or all wrong, because their group-relative advantages are zero "+
			"(DAPO, Yu et al. 2025, §3.2). A rollout is right if its `metric_key`, a part of the reward or a "+
			"metric of the workflow, is more than `correct_threshold`. Experiences without a valid reward or "+
			"without the metric do not count. The operator does not sample replacements: the step has fewer "+
			"groups. Metrics, in groups: dropped_all_correct, dropped_all_wrong.",
		func() trinity.Operator { return &dynamicSampling{MetricKey: "accuracy"} })
}

// dynamicSampling keeps groups in which some rollouts are right and some are wrong.
type dynamicSampling struct {
	MetricKey        string  `yaml:"metric_key" doc:"part of the reward, or metric, that decides whether a rollout is right"`
	CorrectThreshold float64 `yaml:"correct_threshold" doc:"a rollout is right if its number is more than this"`
}

// Validate requires a key.
func (d *dynamicSampling) Validate() error {
	if d.MetricKey == "" {
		return errors.New("metric_key: name a part of the reward, such as accuracy")
	}
	return nil
}

// Process implements trinity.Operator. It returns an error if experiences have rewards but none of
// them has the metric. It keeps groups without any valid reward.
func (d *dynamicSampling) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	metrics := trinity.Metrics{"dropped_all_correct": 0, "dropped_all_wrong": 0}
	verdicts := verdicts{key: d.MetricKey, threshold: d.CorrectThreshold}
	var kept []trinity.Group
	for _, g := range groups {
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
			metrics["dropped_all_correct"]++
		case counted > 0 && correct == 0:
			metrics["dropped_all_wrong"]++
		default:
			kept = append(kept, g)
		}
	}
	if err := verdicts.check(); err != nil {
		return nil, nil, err
	}
	return kept, metrics, nil
}
