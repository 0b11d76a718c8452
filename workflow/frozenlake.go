package workflow

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "frozen_lake_workflow"
	registry.Workflows.Register(name,
		"environment_workflow on a frozen lake with Trinity-RFT's arguments: a row's size, p and seed give the random map that they give "+
			"there, with start and goal anywhere. The environment's other arguments go into environment_args.",
		func() trinity.Workflow {
			return &frozenLake{inEnvironment: inEnvironment{playOf(name)}, lakeArgs: defaultLake()}
		})
}

// frozenLake is the walk over a frozen lake with the arguments of Trinity-RFT.
type frozenLake struct {
	inEnvironment `yaml:",inline"`
	lakeArgs      `yaml:",inline"`
}

// lakeArgs are Trinity-RFT's arguments of a lake.
type lakeArgs struct {
	EnvMaxSteps   int      `yaml:"env_max_steps" range:"[1,)" doc:"steps after which the search for a path through a random map turns back"`
	AgentMaxSteps int      `yaml:"agent_max_steps" range:"[1,)" doc:"replies for a lake at most; max_turns, if it is lower, counts"`
	IsSlippery    bool     `yaml:"is_slippery" doc:"the policy may slip to either side of where it wants to go"`
	Desc          []string `yaml:"desc" doc:"rows of the map in place of a random one: S start, F ice, H hole, G goal"`
}

func defaultLake() lakeArgs { return lakeArgs{EnvMaxSteps: 8, AgentMaxSteps: 10} }

// args returns the arguments of the environment.
func (w *lakeArgs) args() map[string]any {
	args := map[string]any{
		"map_name": "generated", "random_start": true, "path_limit": w.EnvMaxSteps, "max_steps": w.AgentMaxSteps, "is_slippery": w.IsSlippery,
	}
	if w.Desc != nil {
		args["desc"] = w.Desc
	}
	return args
}

// Validate builds the environment.
func (w *frozenLake) Validate() error {
	w.preset(w.args())
	return w.playArgs.Validate()
}
