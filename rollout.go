package trinity

import (
	"context"
	"errors"
	"slices"
)

// Rollout is what a Workflow gets for one run of a task.
type Rollout struct {
	Task   *Task
	Model  *Model     // the policy; every call to it goes through here
	Reward RewardFunc // the reward function that the task names, or the workflow's default; nil without either
	Host   Host       // what lies outside the rollout
}

// Score scores e, the model's reply to messages, with the rollout's reward function, and writes e.Reward. A reply that cannot
// be scored gets an invalid reward with the reason. A reply to a truncated prompt keeps the reward that it has. The error is a failed
// engine, which ends the run.
func (r *Rollout) Score(ctx context.Context, e *Experience, messages ...Message) error {
	if e.Truncated == PromptTruncated {
		return nil
	}
	if r.Reward == nil {
		e.Reward = InvalidReward("the task names no reward function: set default_reward_fn_type")
		return nil
	}
	reward, err := r.Reward.Score(ctx, RewardInput{
		Task: r.Task, Messages: append(slices.Clip(messages), Message{Role: "assistant", Content: e.Response}),
		Prompt: e.Prompt, Response: e.Response, Truth: r.Task.Truth(), Experience: e, Host: r.Host,
	})
	if engine := (*EngineError)(nil); errors.As(err, &engine) {
		return err
	}
	if err != nil {
		reward = InvalidReward(err.Error())
	}
	e.Reward = reward
	return nil
}

// Host gives workflows and reward functions what lies outside a rollout. Many goroutines may use it at once.
type Host interface {
	// Model returns another model by name: an adapter of model.lora_configs, or BaseAdapter. It samples with the task's
	// parameters; its seed follows from the rollout's and the name. Its experiences are not for training.
	Model(name string) (*Model, error)
	// RewardModel returns the reward model of a path or hub name that the plug-in's Requirements list.
	RewardModel(name string) (*RewardModel, error)
	// Dir returns a directory of the run for files of a plug-in; it makes the directory if there is none. name is one path
	// element. The directory outlives the process.
	Dir(name string) (string, error)
	// Say prints a line for people.
	Say(line string)
}

// Requirements lists what a workflow or a reward function needs from a run. `trinity check` and the memory plan read it
// before any model is loaded.
type Requirements struct {
	// Reward says that the workflow scores with Rollout.Reward: DefaultReward if the task names no other, which it must
	// where DefaultReward is "".
	Reward        bool
	DefaultReward string
	RewardModels  []RewardModelSpec
	// CheckTask returns why a task cannot be run or scored, as far as the task alone shows it. The
	// run checks the rows of a taskset with it before it loads a model. It may be nil.
	CheckTask func(*Task) error
}

// RewardModelSpec names a reward model that Host.RewardModel is to return.
type RewardModelSpec struct {
	Path   string // directory or hub name
	Arg    string // the plug-in's argument that names it, for errors
	Labels int    // labels that the model must have at least
}

// Requirer is a Workflow or RewardFunc with Requirements.
type Requirer interface {
	Requires() Requirements
}

// RequirementsOf returns the requirements of a plug-in, the zero value if it has none.
func RequirementsOf(plugin any) Requirements {
	if r, ok := plugin.(Requirer); ok {
		return r.Requires()
	}
	return Requirements{}
}
