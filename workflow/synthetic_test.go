package workflow

import (
	"testing"

	"github.com/trinity-go/trinity/registry"
)

func TestSyntheticSequences(t *testing.T) {
	w := build(t, "synthetic_workflow", map[string]any{"max_model_len": 9, "prompt_len": 4, "dummy_token": 7})
	exps, err := w.Run(t.Context(), rollout(task(), model(nil), nil))
	if err != nil {
		t.Fatal(err)
	}
	e := exps[0]
	if err := e.Check(); err != nil || e.ID != id || len(e.Tokens) != 9 || e.Tokens[8] != 7 || e.TrainedTokens() != 5 || !e.Mask[4] ||
		!e.Reward.Valid || e.Reward.Value != 0 {
		t.Errorf("got %+v, %v", e, err)
	}
	for _, args := range []map[string]any{{"prompt_len": 0}, {"prompt_len": 4096}, {"dummy_token": -1}} {
		if _, err := registry.Workflows.Build("synthetic_workflow", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
