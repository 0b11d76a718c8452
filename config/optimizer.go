package config

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
)

const optimizerKey = "algorithm.optimizer"

// optimizer gives the optimizers that have momentum their own defaults of it.
func (r *resolution) optimizer() {
	o := &r.Algorithm.Optimizer
	switch o.OptimizerType {
	case "sgd":
		inherit(&o.Momentum, ptr(0.9))
		inherit(&o.Nesterov, ptr(false))
	case "muon":
		inherit(&o.Momentum, ptr(0.95))
		inherit(&o.Nesterov, ptr(*o.Momentum > 0))
	}
}

// OptimizerSpec is the optimizer that the engine is opened with: "adam" means AdamW, as it does upstream.
func (c *Config) OptimizerSpec() trinity.OptimizerSpec {
	o := &c.Algorithm.Optimizer
	if o.Momentum == nil {
		return trinity.OptimizerSpec{Type: trinity.AdamW}
	}
	return trinity.OptimizerSpec{Type: o.OptimizerType, Momentum: *o.Momentum, Nesterov: *o.Nesterov}
}

// optimizer refuses settings that the chosen optimizer and schedule would not read.
func (r *rules) optimizer() {
	o, usual := &r.Algorithm.Optimizer, newDefault[Optimizer]()
	if len(o.Betas) != 2 {
		r.fail(optimizerKey+".betas", fmt.Sprintf("has %d numbers, Adam has two", len(o.Betas)), "for example [0.9, 0.999]")
	}
	adam, sgd := named(o.OptimizerType, "adam", "adamw"), o.OptimizerType == "sgd"
	none := o.Momentum != nil && *o.Momentum == 0
	for _, c := range []struct {
		key    string
		unread bool
		why    string
	}{
		{"momentum", adam && o.Momentum != nil, "AdamW's is the first of betas"},
		{"nesterov", adam && o.Nesterov != nil, "AdamW has no such momentum"},
		{"nesterov", none && o.Nesterov != nil && *o.Nesterov, "momentum is 0"},
		{"betas", sgd && !slices.Equal(o.Betas, usual.Betas), "SGD has momentum and no second moment"},
		{"eps", sgd && o.Eps != usual.Eps, "SGD has no second moment"},
		{"lr_decay_steps_ratio", o.LRSchedulerType != "wsd" && o.LRDecayStepsRatio != usual.LRDecayStepsRatio, "only lr_scheduler_type wsd reads it"},
	} {
		if c.unread {
			r.fail(optimizerKey+"."+c.key, "has no effect: "+c.why, "leave it out")
		}
	}
	r.schedule()
}

// schedule checks that of the policy.
func (r *rules) schedule() {
	o, warmup := &r.Algorithm.Optimizer, 0.0
	if o.LRWarmupSteps < 0 {
		warmup = o.LRWarmupStepsRatio
	}
	r.needsSteps(optimizerKey, o.LRSchedulerType, warmup, " or lr_warmup_steps")
}

// needsSteps wants the number of steps where a learning rate depends on it: a trainer that reads what an explorer of another process writes
// does not know it otherwise.
func (r *rules) needsSteps(section, scheduler string, warmup float64, orElse string) {
	if r.Mode != "train" || r.offline() || firstSet(r.Trainer.TotalSteps, r.Buffer.TotalSteps) != nil {
		return
	}
	const hint = "set trainer.total_steps"
	if scheduler != "constant" {
		r.fail(section+".lr_scheduler_type", fmt.Sprintf("%s falls over all steps, whose number is not known", scheduler), hint)
	}
	if warmup > 0 {
		r.fail(section+".lr_warmup_steps_ratio", "is a share of all steps, whose number is not known", hint+orElse)
	}
}
