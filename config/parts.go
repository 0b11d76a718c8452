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

// Tasksets lists the training tasksets, then those of the evaluations.
func (c *Config) Tasksets() []TasksetEntry {
	const root = "buffer.explorer_input"
	in := &c.Buffer.ExplorerInput
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

// parts returns the algorithm type's own parts; false when this version has no such type.
func (c *Config) parts() (*trinity.Algorithm, bool) {
	a, err := registry.Algorithms.Build(c.Algorithm.AlgorithmType)
	return a, err == nil
}

// Parts returns the parts of the algorithm: those of the type, with the changes that the file makes.
func (c *Config) Parts() (*trinity.Algorithm, error) {
	parts, err := registry.Parts(c.Algorithm.changes())
	if err != nil {
		return nil, c.errorFor("algorithm.algorithm_type", err.Error(), "")
	}
	return parts, nil
}

// changes returns the parts and arguments that the section algorithm names.
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

// advantage is the advantage function; nil where there is none, or none that can be built, which is reported elsewhere.
func (c *Config) advantage() trinity.Advantage {
	parts, err := c.Parts()
	if err != nil {
		return nil
	}
	a, err := registry.Advantages.Build(parts.Advantage, parts.AdvantageArgs)
	if err != nil {
		return nil
	}
	return a
}

// policyLoss is a policy loss with its defaults; nil if there is none of that name.
func policyLoss(name string) any {
	if losses, ok := registry.Find("policy_loss_fn"); ok {
		return losses.Default(name)
	}
	return nil
}

// policyNeeds are what the policy loss wants of the trainer.
func policyNeeds(a *trinity.Algorithm) trinity.Needs {
	if in, ok := policyLoss(a.PolicyLoss).(interface{ Needs() trinity.Needs }); ok {
		return in.Needs()
	}
	return trinity.Needs{}
}

// needs are what the advantage function wants of the trainer.
func (c *Config) needs() trinity.Needs {
	if a := c.advantage(); a != nil {
		return a.Needs()
	}
	return trinity.Needs{}
}

// UsesReference reports whether training keeps the frozen reference model: for a KL term of some weight, the advantage or the policy loss.
func (c *Config) UsesReference() bool {
	parts, err := c.Parts()
	if err != nil {
		return false
	}
	return weighs(parts.KLLoss, parts.KLLossArgs) || weighs(parts.KLPenalty, parts.KLPenaltyArgs) ||
		c.needs().Reference || policyNeeds(parts).Reference
}

// weighs tells a KL term from none and from one that kl_coef 0 switches off.
func weighs(name string, args map[string]any) bool {
	coef, set := args["kl_coef"]
	return !named(name, "", "none") && !(set && (coef == 0 || coef == 0.0))
}

// merged returns the entries of all maps, later ones over earlier ones.
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

// GroupSize is the number of rollouts per task: repeat_times, or the algorithm type's own.
func (c *Config) GroupSize() int {
	if c.Algorithm.RepeatTimes != nil {
		return *c.Algorithm.RepeatTimes
	}
	if a, ok := c.parts(); ok && a.GroupSize > 0 {
		return a.GroupSize
	}
	return 1
}

// offline reports whether the algorithm trains on a dataset.
func (c *Config) offline() bool {
	a, ok := c.parts()
	return ok && a.Offline
}

// explores reports whether the mode rolls out training tasks.
func (c *Config) explores() bool {
	return c.Together() || c.Mode == "explore"
}

// Together reports whether one process explores and trains. Colocation, where the two take turns on one GPU, is that on a CPU: they share its cores and memory.
func (c *Config) Together() bool { return c.Mode == "both" || c.Mode == "colocate" }

// trains reports whether the mode updates weights.
func (c *Config) trains() bool { return c.Together() || c.Mode == "train" }

// GradClip is the largest norm of the gradient: trainer.grad_clip, or algorithm.optimizer.clip_grad where only that is set.
func (c *Config) GradClip() float64 { return c.Trainer.GradClip }

const actorKey = "trainer.trainer_config.actor_rollout_ref.actor"

// actor returns a value of veRL's actor section.
func (c *Config) actor(key string) any {
	tree, _ := c.Trainer.TrainerConfig["actor_rollout_ref"].(map[string]any)
	actor, _ := tree["actor"].(map[string]any)
	return actor[key]
}

// MiniBatch is the number of experiences per optimizer step, in the unit of [Config.TrainBatch]: ppo_mini_batch_size of the actor, or the whole
// batch.
func (c *Config) MiniBatch() int {
	if n, ok := c.actor("ppo_mini_batch_size").(int); ok && n > 0 {
		return n
	}
	return c.TrainBatch()
}

// WholeBatch reports whether a batch is one optimizer step, however many experiences it has.
func (c *Config) WholeBatch() bool { return c.actor("ppo_mini_batch_size") == nil }

// Epochs is the number of passes over a batch: ppo_epochs of the actor, or 1.
func (c *Config) Epochs() int {
	if n, ok := c.actor("ppo_epochs").(int); ok && n > 0 {
		return n
	}
	return 1
}

// InitSeed is the seed of random weights.
func (c *Config) InitSeed() int {
	if c.Model.Init.Seed != nil {
		return *c.Model.Init.Seed
	}
	return c.Seed
}

func valueOf[T any](p *T) reflect.Value { return reflect.ValueOf(p).Elem() }

// RecomputesOldLogprobs reports whether the trainer computes the old logprobs, those before the update, itself.
func (c *Config) RecomputesOldLogprobs() bool {
	if bypass := c.Algorithm.RolloutCorrection.BypassMode; bypass != nil {
		return !*bypass
	}
	return !c.Algorithm.BypassOldLogprobs
}
