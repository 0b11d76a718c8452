package config

import (
	"fmt"
	"strings"
)

// The parts of trainer.trainer_config that say what lies in host memory.
const (
	ActorTree     = "actor_rollout_ref.actor"
	ReferenceTree = "actor_rollout_ref.ref"
)

// Offload reports what a part keeps in host memory while it is not in use. trainer.param_offload and
// trainer.optimizer_offload hold for all parts.
func (t *Trainer) Offload(part string) (params, optimizer bool) {
	at := t.TrainerConfig
	for _, name := range strings.Split(part+".fsdp_config", ".") {
		at, _ = at[name].(map[string]any)
	}
	set := func(key string) bool { return fmt.Sprint(at[key]) == "true" }
	return t.ParamOffload || set("param_offload"), t.OptimizerOffload || set("optimizer_offload")
}
