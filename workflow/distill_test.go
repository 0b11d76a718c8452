package workflow

import "testing"

func TestDistillScoresNothing(t *testing.T) {
	w := build(t, "async_on_policy_distill_workflow", nil)
	task, p, r := task(), &parrot{says: "5"}, &echo{}
	task.Format.SystemPrompt = "Add."
	exps, err := w.Run(t.Context(), rollout(task, model(p), r))
	if err != nil || len(exps) != 1 || p.asked != "system: Add.\nuser: 2+3?\nassistant: " {
		t.Fatalf("asked %q, %v", p.asked, err)
	}
	if r := exps[0].Reward; !r.Valid || r.Value != 0 || len(r.Parts) != 0 || exps[0].TrainedTokens() != 1 {
		t.Errorf("%+v", exps[0])
	}
	if r.got.Response != "" {
		t.Error("the task's reward function scored the reply")
	}
}
