package workflow

import (
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func TestDistill(t *testing.T) {
	w, err := registry.Workflows.Build("async_on_policy_distill_workflow")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := w.(trinity.RewardUser); ok {
		t.Error("it asks for a reward function")
	}
	task, p := task(), &parrot{says: "5"}
	task.Format.SystemPrompt = "Add."
	exps, err := w.Run(t.Context(), task, model(p))
	if err != nil || len(exps) != 1 || p.asked != "system: Add.\nuser: 2+3?\nassistant: " {
		t.Fatalf("asked %q, %v", p.asked, err)
	}
	if r := exps[0].Reward; !r.Valid || r.Value != 0 || len(r.Parts) != 0 || exps[0].TrainedTokens() != 1 {
		t.Errorf("%+v", exps[0])
	}
	if w, err := registry.Workflows.Build("on_policy_distill_math_workflow", map[string]any{"with_think": true}); err != nil || w.(trinity.RewardUser).DefaultReward() != "math_boxed_reward" {
		t.Errorf("%+v, %v", w, err)
	}
}
