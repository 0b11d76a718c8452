package workflow

import "github.com/trinity-go/trinity"

func init() {
	register("math_rm_workflow",
		"simple_workflow under the name that Trinity-RFT's configurations with reward models use. The reward function reads the whole "+
			"conversation, also in simple_workflow.",
		func() trinity.Workflow { return &Simple{} })
}
