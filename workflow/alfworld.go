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
			return &Game{InEnvironment: InEnvironment{gamePlay(-0.1)}, TextGame: TextGame{30}, name: name}
		})
	const steps = "step_wise_" + name
	registry.Workflows.Register(steps,
		"alfworld_workflow that gives each reply as an experience of its own, as step_wise_workflow does.",
		func() trinity.Workflow {
			return &StepWiseGame{
				stepWise: stepWise{Play: gamePlay(-0.1), RewardPropagation: "last", Gamma: 0.99}, TextGame: TextGame{30}, name: steps,
			}
		})
}

// Game plays a game of text in one sequence.
type Game struct {
	InEnvironment `yaml:",inline"`
	TextGame      `yaml:",inline"`

	name   string
	share  bool
	system string
}

// Validate builds the environment.
func (w *Game) Validate() error { return w.on(w.name, &w.Play, w.share, w.system) }

// StepWiseGame plays a game of text step by step.
type StepWiseGame struct {
	stepWise `yaml:",inline"`
	TextGame `yaml:",inline"`

	name string
}

// Validate builds the environment.
func (w *StepWiseGame) Validate() error {
	return w.on(w.name, &w.Play, false, "")
}
