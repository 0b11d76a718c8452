package config

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
)

const optimizerKey = "algorithm.optimizer"

// adamW are the names of AdamW. All of them have the same settings.
var adamW = []string{"adam", "adamw", "adamw_8bit"}

// momentum sets the momentum defaults of SGD and Muon.
func (o *Optimizer) momentum() {
	switch o.OptimizerType {
	case "sgd":
		inherit(&o.Momentum, ptr(0.9))
		inherit(&o.Nesterov, ptr(false))
	case "muon":
		inherit(&o.Momentum, ptr(0.95))
		inherit(&o.Nesterov, ptr(*o.Momentum > 0))
	}
}

// Spec returns the optimizer for an engine. "adam" means AdamW, as it does upstream.
func (o *Optimizer) Spec() trinity.OptimizerSpec {
	switch {
	case o.OptimizerType == "adamw_8bit":
		return trinity.OptimizerSpec{Type: trinity.AdamW8bit}
	case o.Momentum == nil:
		return trinity.OptimizerSpec{Type: trinity.AdamW}
	}
	return trinity.OptimizerSpec{Type: o.OptimizerType, Momentum: *o.Momentum, Nesterov: *o.Nesterov}
}

// optimizer refuses settings below key that the chosen optimizer and schedule do not read.
func (r *rules) optimizer(key string, o *Optimizer) {
	usual := newDefault[Optimizer]()
	if len(o.Betas) != 2 && r.IsSet(key+".betas") {
		r.fail(key+".betas", fmt.Sprintf("has %d numbers, Adam has two", len(o.Betas)), "for example [0.9, 0.999]")
	}
	adam, sgd := named(o.OptimizerType, adamW...), o.OptimizerType == "sgd"
	none := o.Momentum != nil && *o.Momentum == 0
	for _, c := range []struct {
		name   string
		unread bool
		why    string
	}{
		{"momentum", adam && o.Momentum != nil, "AdamW's is the first of betas"},
		{"nesterov", adam && o.Nesterov != nil, "AdamW has no such momentum"},
		{"nesterov", none && o.Nesterov != nil && *o.Nesterov, "momentum is 0"},
		{"betas", sgd && !slices.Equal(o.Betas, usual.Betas), "SGD has momentum and no second moment"},
		{"eps", sgd && o.Eps != usual.Eps, "SGD has no second moment"},
		{"lr_decay_steps_ratio", o.LRSchedulerType != "wsd" && o.LRDecayStepsRatio != usual.LRDecayStepsRatio,
			"only lr_scheduler_type wsd reads it"},
	} {
		if c.unread && r.IsSet(key+"."+c.name) {
			r.fail(key+"."+c.name, "has no effect: "+c.why, "leave it out")
		}
	}
	r.schedule(key, o)
}

// schedule requires the number of steps if the learning rate depends on it. A trainer that reads
// from an explorer in another process does not know that number otherwise.
func (r *rules) schedule(key string, o *Optimizer) {
	if r.Mode != "train" || r.ReadsDataset || firstSet(r.Trainer.TotalSteps, r.Buffer.TotalSteps) != nil {
		return
	}
	const hint = "set trainer.total_steps"
	if o.LRSchedulerType != "constant" {
		r.fail(key+".lr_scheduler_type", fmt.Sprintf("%s falls over all steps, but their number is not known", o.LRSchedulerType), hint)
	}
	if o.LRWarmupSteps < 0 && o.LRWarmupStepsRatio > 0 {
		r.fail(key+".lr_warmup_steps_ratio", "is a share of all steps, but their number is not known", hint+" or lr_warmup_steps")
	}
}
