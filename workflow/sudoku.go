package workflow

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "sudoku_workflow"
	registry.Workflows.Register(name,
		"environment_workflow on the Sudoku of the row's column puzzle, as in Trinity-RFT. Any right grid earns the reward; the column "+
			"solution is not read.",
		func() trinity.Workflow { return &inEnvironment{playOf(name)} })
}
