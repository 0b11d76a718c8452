package reward

import (
	"context"
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("openjudge_multi_grader_reward",
		"The mean or the sum of two scores that a model gives the reply, each from 1 to 5: correctness, against the reference answer if there "+
			"is one, and relevance to the question. The model is `judge`, else `model_name` at the server in the environment variable "+
			"`judge_api_base_url_env`. If one of the scores cannot be read, the reply has no valid reward. Parts: correctness_score, "+
			"relevance_score.",
		func() trinity.RewardFunc { return newMultiGrader() })
}

// multiGrader adds up what several graders say.
type multiGrader struct {
	graderArgs    `yaml:",inline"`
	Aggregation   string         `yaml:"score_aggregation" enum:"mean|sum" doc:"of the scores"`
	GraderConfigs map[string]any `yaml:"grader_configs" doc:"Python objects in Trinity-RFT; leave it out"`

	graders []grading
}

// grading is a grader with the name of its score.
type grading struct {
	name string
	by   *judgeReward
}

func newMultiGrader() *multiGrader {
	return &multiGrader{graderArgs: defaultGrader("qwen3-32b"), Aggregation: "mean"}
}

// Validate checks the arguments.
func (m *multiGrader) Validate() error {
	if len(m.GraderConfigs) > 0 {
		return errors.New("grader_configs: graders are Python objects there; use hybrid_reward or weighted_reward over judge_reward")
	}
	asking, err := m.asking()
	if err != nil {
		return err
	}
	m.graders = nil
	for _, g := range []struct{ name, instruction string }{
		{"correctness_score", "Judge whether the reply is correct: all that it says is true, and it agrees with the reference answer if there " +
			"is one."},
		{"relevance_score", "Judge whether the reply is relevant: it answers what was asked, completely, and says nothing beside the point."},
	} {
		by := &judgeReward{askArgs: asking, Mode: "score", Lowest: 1, Highest: 5, Instruction: g.instruction}
		if err := registry.Validate(by); err != nil {
			return err
		}
		m.graders = append(m.graders, grading{g.name, by})
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (m *multiGrader) Requires() trinity.Requirements { return m.graders[0].by.askArgs.Requires() }

// Score implements [trinity.RewardFunc].
func (m *multiGrader) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	return scoreOne(ctx, m, in)
}

// ScoreGroup implements [trinity.GroupReward].
func (m *multiGrader) ScoreGroup(ctx context.Context, in []trinity.RewardInput) ([]trinity.Reward, error) {
	rewards := make([]trinity.Reward, len(in))
	for i := range rewards {
		rewards[i] = trinity.NewReward(map[string]float64{})
	}
	for _, g := range m.graders {
		scores, err := g.by.ScoreGroup(ctx, in)
		if err != nil {
			return nil, err
		}
		for i, score := range scores {
			switch r := &rewards[i]; {
			case !r.Valid:
			case !score.Valid:
				*r = score
			default:
				r.Parts[g.name] = g.by.said(score)
				*r = trinity.NewReward(r.Parts)
			}
		}
	}
	for i := range rewards {
		if m.Aggregation == "mean" {
			rewards[i].Value /= float64(len(m.graders))
		}
	}
	return rewards, nil
}
