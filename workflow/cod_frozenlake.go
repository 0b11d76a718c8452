package workflow

import (
	"maps"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("cod_frozenlake_workflow",
		"Connect-the-Dots on frozen lakes: a rollout walks over the lakes of a pack, with hints to itself between them. Arguments and rows are "+
			"those of the workflow of one lake.",
		func() trinity.Workflow { w := defaultPackLake(); return &w })
}

// defaultPackLake returns the defaults of a workflow on lakes.
func defaultPackLake() packLake {
	play := defaultPlay()
	play.Environment = strings.TrimSuffix("frozen_lake_workflow", "_workflow")
	return packLake{packPlay: packPlay{packArgs: defaultPack(), playArgs: play}, EnvMaxSteps: 8, AgentMaxSteps: 10}
}

// packLake walks over the lakes of a pack.
type packLake struct {
	packPlay      `yaml:",inline"`
	EnvMaxSteps   int      `yaml:"env_max_steps" range:"[1,)" doc:"steps after which the search for a path through a random map turns back"`
	AgentMaxSteps int      `yaml:"agent_max_steps" range:"[1,)" doc:"replies for a lake at most; max_turns, if it is lower, counts"`
	IsSlippery    bool     `yaml:"is_slippery" doc:"the policy may slip to either side of where it wants to go"`
	Desc          []string `yaml:"desc" doc:"rows of the map in place of a random one: S start, F ice, H hole, G goal"`
}

// Validate builds the environment.
func (w *packLake) Validate() error { return w.build(nil) }

// build builds the environment; words are its messages, nil for its own.
func (w *packLake) build(words map[string]any) error {
	args := map[string]any{
		"map_name": "generated", "random_start": true, "path_limit": w.EnvMaxSteps, "max_steps": w.AgentMaxSteps, "is_slippery": w.IsSlippery,
	}
	if w.Desc != nil {
		args["desc"] = w.Desc
	}
	maps.Copy(args, words)
	maps.Copy(args, w.EnvironmentArgs)
	w.EnvironmentArgs, w.MaxTurns = args, min(w.MaxTurns, w.AgentMaxSteps)
	return w.packPlay.Validate()
}
