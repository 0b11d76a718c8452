package workflow

import "github.com/trinity-go/trinity"

func init() {
	for _, name := range []string{"math_rm_workflow", "math_openjudge_workflow"} {
		register(name,
			"simple_workflow under the name that Trinity-RFT's configurations with judges use. The reward function reads the whole "+
				"conversation, also in simple_workflow.",
			func() trinity.Workflow { return &simpleWorkflow{} })
	}
}
