package workflow

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "harbor_workflow"
	registry.Workflows.Register(name,
		"environment_workflow on task folders of Harbor, as a taskset of storage_type task_dir has them: the policy solves a task with the "+
			"tool bash in a sandbox, and the task's tests give the reward. The environment's other arguments go into environment_args. Harbor's "+
			"own agents are programs for the workflow exec.",
		func() trinity.Workflow {
			play := playOf(name)
			play.StepTimeout = 900
			return &harbor{inEnvironment: inEnvironment{play}}
		})
}

// harbor solves task folders of Harbor.
type harbor struct {
	inEnvironment `yaml:",inline"`
	RewardKey     string `yaml:"reward_key" doc:"value of the verifier's reward.json that is the reward; without it, reward or the only value"`
}

// Validate builds the environment.
func (w *harbor) Validate() error {
	w.preset(map[string]any{"max_steps": w.MaxTurns, "reward_key": w.RewardKey})
	return w.playArgs.Validate()
}
