package reward

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("rm_gallery_reward",
		"With reward_name math_verify_reward the same as accuracy_reward, by rule. Without reward_name the same as "+
			"openjudge_multi_grader_reward. Other rewards of RM-Gallery are judges: use judge_reward with its criteria.",
		func() trinity.RewardFunc { return &rmGallery{multiGrader: *newMultiGrader()} })
}

// rmGallery is a reward under the name that RM-Gallery gives it.
type rmGallery struct {
	multiGrader `yaml:",inline"`
	RewardName  string `yaml:"reward_name" doc:"math_verify_reward, or nothing for a model's scores"`

	rule trinity.RewardFunc // nil for a model's scores
}

// Validate checks the arguments.
func (r *rmGallery) Validate() error {
	switch r.RewardName {
	case "":
		return r.multiGrader.Validate()
	case "math_verify_reward":
		r.rule = &accuracy{Answer: "auto"}
		return nil
	}
	return fmt.Errorf("reward_name: %q is not in this program: use judge_reward with criteria", r.RewardName)
}

// Requires implements [trinity.Requirer].
func (r *rmGallery) Requires() trinity.Requirements {
	if r.rule != nil {
		return trinity.RequirementsOf(r.rule)
	}
	return r.multiGrader.Requires()
}

// Score implements [trinity.RewardFunc].
func (r *rmGallery) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	return scoreOne(ctx, r, in)
}

// ScoreGroup implements [trinity.GroupReward].
func (r *rmGallery) ScoreGroup(ctx context.Context, in []trinity.RewardInput) ([]trinity.Reward, error) {
	if r.rule == nil {
		return r.multiGrader.ScoreGroup(ctx, in)
	}
	rewards := make([]trinity.Reward, len(in))
	for i := range in {
		var err error
		if rewards[i], err = r.rule.Score(ctx, in[i]); err != nil {
			return nil, err
		}
	}
	return rewards, nil
}
