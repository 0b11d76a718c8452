package reward

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("reasoning_gym_reward",
		"The score that a generator of reasoning-gym gives the answer to one of its questions, in a Python process. The rows are those that "+
			"`trinity tasks reasoning_gym` writes: dataset, config and index say which question it is. The answer is the text between <answer> "+
			"and </answer>, else the whole reply. Part: score.",
		func() trinity.RewardFunc { return &reasoningGym{defaultPython()} })
}

// reasoningGym asks the generators of reasoning-gym.
type reasoningGym struct {
	pythonReward `yaml:",inline"`
}

// Validate checks the arguments.
func (g *reasoningGym) Validate() error { return g.validate(bridge.ReasoningGym) }

// Requires implements [trinity.Requirer].
func (g *reasoningGym) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: func(t *trinity.Task) error {
		_, err := entryOf(t)
		return err
	}}
}

// entryOf returns which question a task asks.
func entryOf(t *trinity.Task) (map[string]any, error) {
	var name string
	var config map[string]any
	var index int
	err := readColumns(t, map[string]any{"dataset": &name, "config": &config, "index": &index})
	return map[string]any{"dataset_name": name, "config": config, "index": index}, err
}

// Score implements [trinity.RewardFunc].
func (g *reasoningGym) Score(ctx context.Context, in trinity.RewardInput) (r trinity.Reward, err error) {
	entry, err := entryOf(in.Task)
	if err != nil {
		return r, err
	}
	err = g.ask(ctx, in.Host, bridge.ReasoningGym, func(ctx context.Context, b *bridge.Bridge) error {
		score, err := b.ScoreEntry(ctx, entry, in.Response)
		r = trinity.NewReward(map[string]float64{"score": score})
		return err
	})
	if err != nil {
		return trinity.Reward{}, err
	}
	return r, nil
}
