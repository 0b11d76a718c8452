package config

import "testing"

func TestOffload(t *testing.T) {
	actor := map[string]any{"fsdp_config": map[string]any{"param_offload": true, "optimizer_offload": false}}
	tree := map[string]any{"actor_rollout_ref": map[string]any{"actor": actor}}
	for name, c := range map[string]struct {
		trainer           Trainer
		part              string
		params, optimizer bool
	}{
		"nothing":      {Trainer{}, ActorTree, false, false},
		"all parts":    {Trainer{ParamOffload: true, OptimizerOffload: true}, ReferenceTree, true, true},
		"the tree":     {Trainer{TrainerConfig: tree}, ActorTree, true, false},
		"another part": {Trainer{TrainerConfig: tree}, ReferenceTree, false, false},
	} {
		if params, optimizer := c.trainer.Offload(c.part); params != c.params || optimizer != c.optimizer {
			t.Errorf("%s: %v, %v; want %v, %v", name, params, optimizer, c.params, c.optimizer)
		}
	}
}
