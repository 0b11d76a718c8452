package explorer

import (
	"fmt"

	"github.com/trinity-go/trinity"
)

// enoughSteps is the number of first steps without any call of a tool after which the explorer says
// so, once.
const enoughSteps = 3

// reportNoCalls reports that rollouts with tools have called none since the explorer has started.
func (e *Explorer) reportNoCalls(r trinity.Record) {
	calls, haveTools := r.Metrics["rollout/tool_call_rate/mean"]
	if !haveTools || e.callless < 0 {
		return
	}
	if e.callless++; calls > 0 {
		e.callless = -1 // for good
	}
	if e.callless == enoughSteps {
		e.opts.Recorder.Say(fmt.Sprintf("WARNING: explorer step %d: no reply of the first %d steps has called a tool, and %.0f %% of "+
			"this step's replies have a call that cannot be read: show a call in the prompt, or look at explorer.rollout_model.tool_call_parser",
			r.Step, enoughSteps, 100*r.Metrics["rollout/tool_call_malformed_rate/mean"]))
	}
}
