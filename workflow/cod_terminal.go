package workflow

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "cod_terminal_workflow"
	registry.Workflows.Register(name,
		"Connect-the-Dots at a simulated terminal: the tasks of a pack change files of the same machine, which is as at first in each task. A "+
			"row has a seed. The machines and the tasks are this program's own.",
		func() trinity.Workflow {
			return &packTerminal{packPlay: packOf(name), AgentMaxSteps: 15, CompositeRatio: 0.5}
		})
}

// packTerminal changes files.
type packTerminal struct {
	packPlay       `yaml:",inline"`
	AgentMaxSteps  int     `yaml:"agent_max_steps" doc:"commands for a task at most"`
	CompositeRatio float64 `yaml:"composite_ratio" doc:"share of tasks with two changes"`
}

// Validate builds the environment.
func (w *packTerminal) Validate() error {
	w.preset(map[string]any{"max_steps": w.AgentMaxSteps, "composite_ratio": w.CompositeRatio})
	w.MaxTurns = min(w.MaxTurns, max(1, w.AgentMaxSteps))
	return w.packPlay.Validate()
}
