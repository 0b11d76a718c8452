package workflow

import (
	"maps"

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
	return packLake{packPlay: packOf("frozen_lake_workflow"), lakeArgs: defaultLake()}
}

// packLake walks over the lakes of a pack.
type packLake struct {
	packPlay `yaml:",inline"`
	lakeArgs `yaml:",inline"`
}

// Validate builds the environment.
func (w *packLake) Validate() error { return w.build(nil) }

// build builds the environment; words are its messages, nil for its own.
func (w *packLake) build(words map[string]any) error {
	args := w.args()
	maps.Copy(args, words)
	w.preset(args)
	w.MaxTurns = min(w.MaxTurns, w.AgentMaxSteps)
	return w.packPlay.Validate()
}
