package reward

import (
	"context"
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("verifiers_reward",
		"The rewards that a task of verifiers gives one reply, in a Python process. The rows are those that `trinity tasks verifiers` writes: "+
			"taskset, config and data say which task it is. Tasks with tools, a container or a reward that needs a runtime are refused. Parts: "+
			"the task's rewards by name, times their weights.",
		func() trinity.RewardFunc { return &verifiers{defaultPython()} })
}

// verifiers asks the tasks of verifiers.
type verifiers struct {
	pythonReward `yaml:",inline"`
}

// Validate checks the arguments.
func (v *verifiers) Validate() error { return v.validate(bridge.Verifiers) }

// Requires implements [trinity.Requirer].
func (v *verifiers) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: func(t *trinity.Task) error {
		_, err := verifiersTask(t)
		return err
	}}
}

// verifiersTask returns which task of verifiers a task is.
func verifiersTask(t *trinity.Task) (map[string]any, error) {
	var name string
	var config, data map[string]any
	err := readColumns(t, map[string]any{"taskset": &name, "config": &config, "data": &data})
	return map[string]any{"name": name, "config": config, "data": data}, err
}

// Score implements [trinity.RewardFunc].
func (v *verifiers) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	question, err := verifiersTask(in.Task)
	if err != nil {
		return trinity.Reward{}, err
	}
	question["do"], question["question"], question["reply"] = "score", in.Prompt, in.Response
	question["system"], question["reasoning"] = "", ""
	for _, m := range in.Messages {
		switch m.Role {
		case "system":
			question["system"] = m.Content
		case "assistant":
			question["reasoning"] = m.Reasoning
		}
	}
	var said struct{ Parts map[string]float64 }
	err = v.ask(ctx, in.Host, bridge.Verifiers, func(ctx context.Context, b *bridge.Bridge) error { return b.Call(ctx, question, &said) })
	switch {
	case err != nil:
		return trinity.Reward{}, err
	case len(said.Parts) == 0:
		return trinity.Reward{}, errors.New("verifiers: the task gives no reward")
	}
	return trinity.NewReward(said.Parts), nil
}
