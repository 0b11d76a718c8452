package workflow

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "webshop_workflow"
	registry.Workflows.Register(name,
		"environment_workflow on WebShop with Trinity-RFT's rewards: the environment's last one if something was bought, else "+
			"unfinished_reward. The shop is `environment`, such as openenv with a server of it. The environment reads what stands in "+
			"<action>…</action>. Metrics: env_rounds, env_done.",
		func() trinity.Workflow {
			return &textGameWorkflow{inEnvironment: inEnvironment{gamePlay(-0.1)}, gameArgs: gameArgs{15}, name: name}
		})
}
