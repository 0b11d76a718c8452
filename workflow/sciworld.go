package workflow

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "sciworld_workflow"
	registry.Workflows.Register(name,
		"environment_workflow on ScienceWorld with Trinity-RFT's reward: the highest score of the episode, from 0 to 1, where the "+
			"environment's rewards add up to a score from 0 to 100. The game is played by `environment`, such as openenv with a server of it. "+
			"The environment reads what stands in <action>…</action>. Metrics: env_rounds, env_done.",
		func() trinity.Workflow {
			return &textGameWorkflow{inEnvironment: inEnvironment{gamePlay(0)}, gameArgs: gameArgs{30}, name: name, share: true}
		})
}
