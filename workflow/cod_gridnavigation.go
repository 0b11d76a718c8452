package workflow

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "cod_grid_navigation_workflow"
	registry.Workflows.Register(name,
		"Connect-the-Dots on a grid of unknown costs, which all tasks of a pack share: a rollout goes from start to goal in each task, and what "+
			"it has seen of the grid stays seen. The policy moves like a rook. A row has a seed.",
		func() trinity.Workflow {
			return &packGrid{packPlay: packOf(name), gridArgs: gridArgs{
				MinSize: 12, MaxSize: 16, Hills: 6, MinScale: 0.1, MaxScale: 0.35, MinRounds: 6, MaxRounds: 10, Radius: 1}}
		})
}

// packGrid finds cheap ways through a grid.
type packGrid struct {
	packPlay `yaml:",inline"`
	gridArgs `yaml:",inline"`
}

// gridArgs are the arguments that go to the environment.
type gridArgs struct {
	MinSize   int     `yaml:"grid_min_size" doc:"rows and columns at least"`
	MaxSize   int     `yaml:"grid_max_size" doc:"rows and columns at most"`
	Hills     int     `yaml:"landscape_num_components" doc:"hills of cost"`
	MinScale  float64 `yaml:"landscape_min_scale" doc:"width of a hill at least, as a share of the grid's"`
	MaxScale  float64 `yaml:"landscape_max_scale" doc:"width of a hill at most"`
	MinRounds int     `yaml:"min_rounds" doc:"moves of a task at least"`
	MaxRounds int     `yaml:"max_rounds" doc:"moves of a task at most"`
	Radius    int     `yaml:"reveal_radius" doc:"cells around an entered one whose costs are seen then"`
}

// Validate builds the environment.
func (w *packGrid) Validate() error {
	w.preset(argsOf(&w.gridArgs))
	w.MaxTurns = min(w.MaxTurns, max(1, w.MaxRounds))
	return w.packPlay.Validate()
}
