package reward

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("reward_model",
		"The score of a reward model (`model_path`: a directory or hub name of a …ForSequenceClassification, such as LlamaForSequenceClassification) for the chat "+
			"of system prompt, prompt and reply, rendered by the chat template of that model, times `scale`. Part: score.",
		func() trinity.RewardFunc { return &Model{Scale: 1} })
}

// Model scores with a reward model.
type Model struct {
	ModelPath string  `yaml:"model_path" doc:"directory or hub name of the reward model"`
	Label     int     `yaml:"label" doc:"which of the model's labels is the score, from 0"`
	Scale     float64 `yaml:"scale" doc:"multiplies the score"`

	model *trinity.RewardModel
}

// Validate wants a model.
func (m *Model) Validate() error {
	if m.ModelPath == "" {
		return errors.New("model_path: name the directory or hub name of a reward model")
	}
	if m.Label < 0 {
		return fmt.Errorf("label: is %d: want 0 or more", m.Label)
	}
	return nil
}

// RewardModelPath implements trinity.RewardModelUser.
func (m *Model) RewardModelPath() string { return m.ModelPath }

// WithRewardModel implements trinity.RewardModelUser.
func (m *Model) WithRewardModel(model *trinity.RewardModel) (trinity.RewardFunc, error) {
	if n := model.Scorer.Labels(); m.Label >= n {
		return nil, fmt.Errorf("label: is %d, and reward model %s has %d: want 0 to %d", m.Label, m.ModelPath, n, n-1)
	}
	with := *m
	with.model = model
	return &with, nil
}

// Score implements trinity.RewardFunc.
func (m *Model) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	if m.model == nil {
		return trinity.Reward{}, fmt.Errorf("reward model %s was not opened", m.ModelPath)
	}
	tokens, err := m.model.Renderer.Render(chat(in), nil, false)
	if err != nil {
		return trinity.Reward{}, fmt.Errorf("reward model %s: %w", m.ModelPath, err)
	}
	scores, err := m.model.Scorer.Score(ctx, [][]int32{tokens})
	if err != nil {
		return trinity.Reward{}, fmt.Errorf("reward model %s: %w", m.ModelPath, err)
	}
	return trinity.NewReward(map[string]float64{"score": m.Scale * float64(scores[0][m.Label])}), nil
}

// chat is what the reward model reads.
func chat(in trinity.RewardInput) []trinity.Message {
	messages := []trinity.Message{{Role: "user", Content: in.Prompt}, {Role: "assistant", Content: in.Response}}
	if in.Task != nil {
		if system := in.Task.System(); system != "" {
			messages = append([]trinity.Message{{Role: "system", Content: system}}, messages...)
		}
	}
	return messages
}
