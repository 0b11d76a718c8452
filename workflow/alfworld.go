package workflow

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "alfworld_workflow"
	registry.Workflows.Register(name,
		"environment_workflow on ALFWorld with Trinity-RFT's rewards: the environment's last one if the episode is done, else "+
			"unfinished_reward. The game is played by `environment`, such as openenv with a server of it. The environment reads what stands "+
			"in <action>…</action>. Metrics: env_rounds, env_done.",
		func() trinity.Workflow {
			return &textGameWorkflow{inEnvironment: inEnvironment{gamePlay(-0.1)}, gameArgs: gameArgs{30}, name: name}
		})
	const steps = "step_wise_" + name
	registry.Workflows.Register(steps,
		"alfworld_workflow that gives each reply as an experience of its own, as step_wise_workflow does.",
		func() trinity.Workflow {
			return &stepWiseGame{
				stepWise: stepWise{playArgs: gamePlay(-0.1), RewardPropagation: "last", Gamma: 0.99}, gameArgs: gameArgs{30}, name: steps,
			}
		})
}

// textGameWorkflow plays a game of text in one sequence.
type textGameWorkflow struct {
	inEnvironment `yaml:",inline"`
	gameArgs      `yaml:",inline"`

	name   string
	share  bool
	system string
}

// Validate builds the environment.
func (w *textGameWorkflow) Validate() error { return w.on(w.name, &w.playArgs, w.share, w.system) }

// stepWiseGame plays a game of text step by step.
type stepWiseGame struct {
	stepWise `yaml:",inline"`
	gameArgs `yaml:",inline"`

	name string
}

// Validate builds the environment.
func (w *stepWiseGame) Validate() error {
	return w.on(w.name, &w.playArgs, false, "")
}
