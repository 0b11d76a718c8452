package config

import (
	"maps"
	"reflect"
	"strconv"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// TasksetEntry is a taskset with its place in the file.
type TasksetEntry struct {
	*Taskset
	Key   string // dotted path of the taskset
	Index int    // among the training or the evaluation tasksets
	Eval  bool
}

// tasksetsOf lists the training tasksets, then the evaluation tasksets.
func tasksetsOf(in *ExplorerInput) []TasksetEntry {
	const root = "buffer.explorer_input"
	var all []TasksetEntry
	if in.Taskset != nil {
		all = append(all, TasksetEntry{in.Taskset, root + ".taskset", 0, false})
	}
	for i := range in.Tasksets {
		all = append(all, TasksetEntry{&in.Tasksets[i], root + ".tasksets." + strconv.Itoa(i), i, false})
	}
	for i := range in.EvalTasksets {
		all = append(all, TasksetEntry{&in.EvalTasksets[i], root + ".eval_tasksets." + strconv.Itoa(i), i, true})
	}
	return all
}

// changes returns the parts and arguments that section algorithm sets.
func (a *Algorithm) changes() trinity.Algorithm {
	return trinity.Algorithm{
		Type:      a.AlgorithmType,
		Advantage: a.AdvantageFn, AdvantageArgs: a.AdvantageFnArgs,
		PolicyLoss: a.PolicyLossFn, PolicyLossArgs: a.PolicyLossFnArgs, LossAggMode: a.LossAggMode,
		KLPenalty: a.KLPenaltyFn, KLPenaltyArgs: a.KLPenaltyFnArgs,
		KLLoss: a.KLLossFn, KLLossArgs: a.KLLossFnArgs,
		Entropy: a.EntropyLossFn, EntropyArgs: a.EntropyLossFnArgs,
		SampleStrategy: a.SampleStrategy, SampleStrategyArgs: a.SampleStrategyArgs,
	}
}

// policyLoss returns a policy loss with its defaults, nil if there is none of that name.
func policyLoss(name string) any {
	if losses, ok := registry.Find("policy_loss_fn"); ok {
		return losses.Default(name)
	}
	return nil
}

// policyNeeds returns what the policy loss needs from the trainer.
func policyNeeds(a *trinity.Algorithm) trinity.Needs {
	if in, ok := policyLoss(a.PolicyLoss).(interface{ Needs() trinity.Needs }); ok {
		return in.Needs()
	}
	return trinity.Needs{}
}

// weighs reports whether a KL term has an effect: it is neither none nor switched off by kl_coef 0.
func weighs(name string, args map[string]any) bool {
	coef, set := args["kl_coef"]
	return !named(name, "", "none") && !(set && (coef == 0 || coef == 0.0))
}

// merged returns the entries of all maps; later maps win.
func merged(all ...map[string]any) map[string]any {
	var out map[string]any
	for _, m := range all {
		if len(m) > 0 && out == nil {
			out = map[string]any{}
		}
		maps.Copy(out, m)
	}
	return out
}

const actorKey = "trainer.trainer_config.actor_rollout_ref.actor"

// actor returns a value from veRL's actor section.
func (c *Config) actor(key string) any {
	tree, _ := c.Trainer.TrainerConfig["actor_rollout_ref"].(map[string]any)
	actor, _ := tree["actor"].(map[string]any)
	return actor[key]
}

func valueOf[T any](p *T) reflect.Value { return reflect.ValueOf(p).Elem() }
