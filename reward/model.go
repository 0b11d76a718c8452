package reward

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("reward_model",
		"The score of a reward model for the conversation, with the reply as its last message, times `scale`. The reward model is a "+
			"…ForSequenceClassification, such as LlamaForSequenceClassification, and renders the conversation with its own chat "+
			"template. Part: score.",
		func() trinity.RewardFunc { return &modelReward{Scale: 1} })
}

// modelReward scores with a reward model.
type modelReward struct {
	ModelPath string  `yaml:"model_path" required:"name the directory or hub name of a reward model" doc:"of the reward model"`
	Label     int     `yaml:"label" range:"[0,)" doc:"which of the model's labels is the score, from 0"`
	Scale     float64 `yaml:"scale" doc:"multiplies the score"`
}

// Requires implements [trinity.Requirer].
func (m *modelReward) Requires() trinity.Requirements {
	return trinity.Requirements{RewardModels: []trinity.RewardModelSpec{{Path: m.ModelPath, Arg: "model_path", Labels: m.Label + 1}}}
}

// Score implements [trinity.RewardFunc].
func (m *modelReward) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	if in.Host == nil {
		return trinity.Reward{}, fmt.Errorf("reward model %s: only a run can open it", m.ModelPath)
	}
	model, err := in.Host.RewardModel(m.ModelPath)
	if err != nil {
		return trinity.Reward{}, err
	}
	messages, err := chat(in)
	if err != nil {
		return trinity.Reward{}, err
	}
	tokens, err := model.Renderer.Render(messages, nil, false)
	if err != nil {
		return trinity.Reward{}, fmt.Errorf("reward model %s: %w", m.ModelPath, err)
	}
	scores, err := model.Scorer.Score(ctx, [][]int32{tokens})
	if err != nil {
		return trinity.Reward{}, fmt.Errorf("reward model %s: %w", m.ModelPath, err)
	}
	return trinity.NewReward(map[string]float64{"score": m.Scale * float64(scores[0][m.Label])}), nil
}

// chat returns the conversation with the reply as its last message.
func chat(in trinity.RewardInput) (messages []trinity.Message, err error) {
	if in.Messages != nil {
		return in.Messages, nil
	}
	system := ""
	if in.Task != nil {
		if system, err = in.Task.System(); err != nil {
			return nil, err
		}
	}
	if system != "" {
		messages = append(messages, trinity.Message{Role: "system", Content: system})
	}
	return append(messages, trinity.Message{Role: "user", Content: in.Prompt}, trinity.Message{Role: "assistant", Content: in.Response}), nil
}
