package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
)

// Algorithm is what a run optimizes, and how. Parts and arguments that are left out come from the
// algorithm type. Given arguments replace the defaults of the part key by key.
type Algorithm struct {
	// Name of the algorithm type.
	AlgorithmType string `yaml:"algorithm_type" default:"ppo" plugin:"algorithm"`
	// Rollouts per task (group size); left out is the algorithm type's own number.
	RepeatTimes *int      `yaml:"repeat_times" range:"[1,)"`
	Optimizer   Optimizer `yaml:"optimizer"`
	// How the trainer chooses the experiences that it reads.
	SampleStrategy string `yaml:"sample_strategy" plugin:"sample_strategy"`
	// Arguments of the sample strategy, merged over its defaults.
	SampleStrategyArgs map[string]any `yaml:"sample_strategy_args" args:"sample_strategy"`
	// How rewards become advantages.
	AdvantageFn string `yaml:"advantage_fn" plugin:"advantage_fn"`
	// Arguments of the advantage function, merged over its defaults.
	AdvantageFnArgs map[string]any `yaml:"advantage_fn_args" args:"advantage_fn"`
	// The policy loss.
	PolicyLossFn string `yaml:"policy_loss_fn" plugin:"policy_loss_fn"`
	// Arguments of the policy loss, merged over its defaults.
	PolicyLossFnArgs map[string]any `yaml:"policy_loss_fn_args" args:"policy_loss_fn"`
	// KL divergence from the reference model, subtracted from the reward of each token. It needs an
	// advantage_fn over token rewards.
	KLPenaltyFn string `yaml:"kl_penalty_fn" plugin:"kl_fn"`
	// Arguments of the KL penalty, merged over its defaults.
	KLPenaltyFnArgs map[string]any `yaml:"kl_penalty_fn_args" args:"kl_penalty_fn"`
	// KL divergence from the reference model, added to the loss.
	KLLossFn string `yaml:"kl_loss_fn" plugin:"kl_fn"`
	// Arguments of the KL loss, merged over its defaults.
	KLLossFnArgs map[string]any `yaml:"kl_loss_fn_args" args:"kl_loss_fn"`
	// Entropy term of the loss.
	EntropyLossFn string `yaml:"entropy_loss_fn" plugin:"entropy_loss_fn"`
	// Arguments of the entropy term, merged over its defaults.
	EntropyLossFnArgs map[string]any `yaml:"entropy_loss_fn_args" args:"entropy_loss_fn"`
	// How the losses of tokens become the loss of a step; left out is the policy loss's own way, else
	// token-mean.
	LossAggMode string `yaml:"loss_agg_mode" enum:"|token-mean|seq-mean-token-sum|seq-mean-token-mean|seq-mean-token-sum-norm"`
	// Replay the experts that the router chose in the rollout (mixture-of-experts models).
	EnableRouterReplay bool `yaml:"enable_router_replay"`
	// Use the rollout's logprobs as the old logprobs. With false, the training engine computes the old
	// logprobs before the first update.
	BypassOldLogprobs bool `yaml:"bypass_old_logprobs" default:"true"`
	// Weights and rejection that correct the mismatch between the logprobs of rollout and training.
	RolloutCorrection RolloutCorrection `yaml:"rollout_correction"`
}

// RolloutCorrection weights each token by the ratio of the trainer's to the sampler's probability,
// both before the update, and leaves out tokens or sequences whose ratio is too far from 1.
type RolloutCorrection struct {
	// Use the rollout's logprobs as the old logprobs, so that the ratio of the loss is relative to the
	// sampler. With false, the trainer computes the old logprobs and corrects. Not set is
	// algorithm.bypass_old_logprobs.
	BypassMode *bool `yaml:"bypass_mode"`
	// Importance weights, which multiply the policy loss: one per token, or one per sequence (the
	// product over its tokens).
	RolloutIs string `yaml:"rollout_is" enum:"|token|sequence"`
	// Largest weight; larger ones are truncated to it.
	RolloutIsThreshold float64 `yaml:"rollout_is_threshold" default:"2.0" range:"(0,)"`
	// Divide the weights by their mean over the batch.
	RolloutIsBatchNormalize bool `yaml:"rollout_is_batch_normalize"`
	// Leave out what has a ratio outside the band: tokens, sequences by the product of their ratios,
	// or sequences by the geometric mean.
	RolloutRs string `yaml:"rollout_rs" enum:"|token|sequence|geometric"`
	// Upper end of the band.
	RolloutRsThreshold *float64 `yaml:"rollout_rs_threshold" range:"[1,)"`
	// Lower end of the band; not set is 1 / rollout_rs_threshold.
	RolloutRsThresholdLower *float64 `yaml:"rollout_rs_threshold_lower" range:"(0,1]"`
}

// Optimizer is how weights follow their gradient, and how the learning rate changes over the steps
// of a run.
type Optimizer struct {
	// Peak learning rate; 0 trains nothing (a control run).
	LR float64 `yaml:"lr" default:"1e-6" range:"[0,)"`
	// Train steps of linear warm-up from min_lr_ratio × lr to lr; negative takes lr_warmup_steps_ratio
	// of all steps.
	LRWarmupSteps int `yaml:"lr_warmup_steps" default:"-1"`
	// Share of all steps for warm-up, if lr_warmup_steps is negative.
	LRWarmupStepsRatio float64 `yaml:"lr_warmup_steps_ratio" default:"0.0" range:"[0,1]"`
	// Learning rate before warm-up and at the end of a cosine, linear or wsd schedule, as a share of
	// lr.
	MinLRRatio float64 `yaml:"min_lr_ratio" default:"0.01" range:"[0,1]"`
	// Deprecated name of lr_scheduler_type.
	WarmupStyle string `yaml:"warmup_style" enum:"|constant|cosine|linear"`
	// Schedule after the warm-up. `constant` keeps lr. `cosine` and `linear` fall until the end. `wsd`
	// (warm-up, stable, decay) keeps lr and falls linearly over the last lr_decay_steps_ratio of all
	// steps. `linear` and `wsd` are Trinity-Go's own.
	LRSchedulerType string `yaml:"lr_scheduler_type" default:"constant" enum:"constant|cosine|linear|wsd"`
	// Share of all steps, at the end, in which wsd falls. Own key of Trinity-Go.
	LRDecayStepsRatio float64 `yaml:"lr_decay_steps_ratio" default:"0.1" range:"(0,1]"`
	// The optimizer: AdamW (`adam` or `adamw`), AdamW with 8-bit moments, SGD, or Muon for the
	// matrices of the layers with AdamW for the rest. `muon` is Trinity-Go's own.
	OptimizerType string `yaml:"optimizer_type" default:"adam" enum:"adam|adamw|adamw_8bit|sgd|muon"`
	// Decay rates of the first and second moment of AdamW, also of the AdamW beside Muon.
	Betas []float64 `yaml:"betas" default:"[0.9, 0.999]" range:"[0,1)"`
	// Number added to the root of AdamW's second moment. Own key of Trinity-Go.
	Eps float64 `yaml:"eps" default:"1e-8" range:"(0,)"`
	// Momentum of SGD and Muon; 0 is none. Left out is 0.9 for SGD and 0.95 for Muon. Own key of
	// Trinity-Go.
	Momentum *float64 `yaml:"momentum" range:"[0,1)"`
	// Use Nesterov's momentum in SGD and Muon. Left out is false for SGD and true for Muon. Own key of
	// Trinity-Go.
	Nesterov *bool `yaml:"nesterov"`
	// Weight decay. AdamW and Muon apply it to the weights, SGD adds it to the gradient, as PyTorch's
	// optimizers do.
	WeightDecay float64 `yaml:"weight_decay" default:"0.01" range:"[0,)"`
	// Largest norm of the gradient. trainer.grad_clip means the same; set one of the two.
	ClipGrad float64 `yaml:"clip_grad" default:"1.0" range:"(0,)"`
	// Fused kernels of PyTorch's optimizer (newest upstream).
	Fused *bool `yaml:"fused"`
	// Multi-tensor kernels of PyTorch's optimizer (newest upstream).
	Foreach *bool `yaml:"foreach"`
}

// checkScoring checks that the advantage function fits the data and the loss terms.
func (algorithm *Algorithm) checkScoring(r report, method *Method, w Work) {
	const fn, penalty = "algorithm.advantage_fn", "algorithm.kl_penalty_fn"
	s, a := algorithm, method.Advantage
	if a == nil || !w.Explores && !w.Trains && !w.Records() {
		return
	}
	if w.Offline && !named(s.AdvantageFn, "", "none") {
		r.fail(fn, fmt.Sprintf("%s trains on a dataset, which has no rewards to make advantages of", s.AlgorithmType), "remove it")
	}
	if a.Needs().Group && (w.Explores || w.Records()) && method.GroupSize == 1 {
		r.fail("algorithm.repeat_times", fmt.Sprintf("is 1, but advantage_fn %s compares the rollouts of a task with one another", s.AdvantageFn),
			"set it to 2 or more, or choose an algorithm_type or advantage_fn that takes single rollouts, such as ppo or reinforceplusplus")
	}
	if named(s.KLPenaltyFn, "", "none") {
		return
	}
	if needs := method.Needs; needs.PenalizeKL == nil || !needs.Batch {
		const what = "is %s, but advantage_fn %s scores whole responses, before the trainer, and has no token rewards to take a penalty from"
		r.fail(penalty, fmt.Sprintf(what, s.KLPenaltyFn, s.AdvantageFn),
			"use kl_loss_fn, or an advantage_fn over token rewards, such as ppo or reinforceplusplus")
	}
}

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
func (o *Optimizer) Spec() engine.OptimizerSpec {
	switch {
	case o.OptimizerType == "adamw_8bit":
		return engine.OptimizerSpec{Type: engine.AdamW8bit}
	case o.Momentum == nil:
		return engine.OptimizerSpec{Type: engine.AdamW}
	}
	return engine.OptimizerSpec{Type: o.OptimizerType, Momentum: *o.Momentum, Nesterov: *o.Nesterov}
}

// check refuses settings below key that the chosen optimizer and schedule do not read.
func (o *Optimizer) check(r report, w Work, key string) {
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
	o.checkSchedule(r, w, key)
}

// checkSchedule requires the number of steps if the learning rate depends on it. A trainer that reads
// from an explorer in another process does not know that number otherwise.
func (o *Optimizer) checkSchedule(r report, w Work, key string) {
	if w.mode != "train" || w.ReadsDataset || w.StepLimit() > 0 {
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

const (
	lossArgsKey = "algorithm.policy_loss_fn_args"
	wholeStep   = "losses are normalised over the optimizer step, however it is cut"
)

var unusedOfAlgorithm = []unusedKey{
	{lossArgsKey + ".use_dynamic_bsz", always(wholeStep)},
	{lossArgsKey + ".ppo_mini_batch_size", always(wholeStep)},
	{lossArgsKey + ".ppo_micro_batch_size_per_gpu", always(wholeStep)},
	{lossArgsKey + ".ngpus_trainer", always(wholeStep)},
	{lossArgsKey + ".train_batch_size_usual", always(wholeStep)},
	{lossArgsKey + ".train_batch_size_expert", always(wholeStep)},
	{"algorithm.kl_loss_fn_args", absentTerm},
	{"algorithm.kl_penalty_fn_args", absentTerm},
	{"algorithm.entropy_loss_fn_args", absentTerm},
}

// absentTerm is the reason of an argument of a term that the value none switches off.
func absentTerm(s *Settled, key string) string {
	if fn, _, isArg := strings.Cut(key, "_args."); isArg && s.at(fn) == "none" {
		return lastKey(fn) + " is none"
	}
	return ""
}

// check checks that the keys of rollout_correction fit together.
func (c *RolloutCorrection) check(r report, algorithm *Algorithm, method *Method, w Work) {
	const key = "algorithm.rollout_correction"
	bypass := c.BypassMode
	if bypass != nil && r.IsSet("algorithm.bypass_old_logprobs") && *bypass != algorithm.BypassOldLogprobs {
		r.fail(key+".bypass_mode", "contradicts algorithm.bypass_old_logprobs", "set one of the two")
	}
	if method.Recomputes && w.Offline {
		set := key + ".bypass_mode"
		if bypass == nil {
			set = "algorithm.bypass_old_logprobs"
		}
		r.fail(set, fmt.Sprintf("%s trains on a dataset, which no policy sampled", algorithm.AlgorithmType), "remove it")
	}
	for _, part := range []struct{ name, value string }{{"rollout_is", c.RolloutIs}, {"rollout_rs", c.RolloutRs}} {
		if part.value != "" && !method.Recomputes {
			r.fail(key+"."+part.name, "compares the rollout's logprobs with the trainer's, which bypass mode does not compute",
				"set bypass_mode: false beside it")
		}
	}
	switch {
	case c.RolloutIsBatchNormalize && c.RolloutIs == "":
		r.fail(key+".rollout_is_batch_normalize", "no weights exist to normalise", "set rollout_is")
	case c.RolloutRs == "" && c.RolloutRsThreshold != nil:
		r.fail(key+".rollout_rs_threshold", "nothing is rejected", "set rollout_rs")
	case c.RolloutRs != "" && c.RolloutRsThreshold == nil:
		r.fail(key+".rollout_rs", "needs the upper end of the band", "set rollout_rs_threshold, for example 2.0, or 1.01 with geometric")
	case c.RolloutRsThreshold == nil && c.RolloutRsThresholdLower != nil:
		r.fail(key+".rollout_rs_threshold_lower", "nothing is rejected", "set rollout_rs and rollout_rs_threshold")
	}
}

// settleAlgorithm fills in the keys that follow from the algorithm type. IsSet still reports what the
// file sets.
func settleAlgorithm(r report, algorithm *Algorithm, method *Method, trainer *Trainer, w Work) {
	if own := method.Parts; own != nil && (w.Trains || w.Explores || w.Records()) {
		a := algorithm
		setDefault(&a.AdvantageFn, own.Advantage)
		setDefault(&a.PolicyLossFn, own.PolicyLoss)
		setDefault(&a.KLPenaltyFn, own.KLPenalty)
		setDefault(&a.KLLossFn, own.KLLoss)
		setDefault(&a.EntropyLossFn, own.Entropy)
		setDefault(&a.SampleStrategy, own.SampleStrategy)
		if !own.Offline {
			a.RepeatTimes = ptr(method.GroupSize)
		}
	}
	settleGradClip(r, algorithm, trainer)
	algorithm.Optimizer.momentum()
}

// settleGradClip gives the two keys for the largest gradient norm one value.
func settleGradClip(r report, algorithm *Algorithm, trainer *Trainer) {
	const one, other = "trainer.grad_clip", "algorithm.optimizer.clip_grad"
	a, b := &trainer.GradClip, &algorithm.Optimizer.ClipGrad
	switch {
	case r.IsSet(one) && r.IsSet(other) && *a != *b:
		r.fail(other, fmt.Sprintf("is %g, but %s is %g, and both mean the same limit", *b, one, *a), "keep one of them")
	case r.IsSet(other):
		*a = *b
	default:
		*b = *a
	}
}

func moveWarmupStyle(r report, algorithm *Algorithm) {
	o := &algorithm.Optimizer
	if o.WarmupStyle == "" {
		return
	}
	const key = "algorithm.optimizer.warmup_style"
	if r.IsSet("algorithm.optimizer.lr_scheduler_type") && o.LRSchedulerType != o.WarmupStyle {
		r.fail(key, fmt.Sprintf("is %s, but lr_scheduler_type, its new name, is %s", o.WarmupStyle, o.LRSchedulerType),
			"keep lr_scheduler_type alone")
		return
	}
	r.warn(key, "is the old name of lr_scheduler_type")
	o.LRSchedulerType, o.WarmupStyle = o.WarmupStyle, ""
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

// policyLoss returns the policy loss of an algorithm, nil if there is none of that name.
func policyLoss(a *trinity.Algorithm) any {
	if losses, ok := registry.Find("policy_loss_fn"); ok {
		return losses.Default(a.PolicyLoss, a.PolicyLossArgs)
	}
	return nil
}

// policyNeeds returns what the policy loss needs from the trainer.
func policyNeeds(a *trinity.Algorithm) trinity.Needs {
	if in, ok := policyLoss(a).(interface{ Needs() trinity.Needs }); ok {
		return in.Needs()
	}
	return trinity.Needs{}
}

// weighs reports whether a KL term has an effect: it is neither none nor switched off by kl_coef 0.
func weighs(name string, args map[string]any) bool {
	coef, set := args["kl_coef"]
	return !named(name, "", "none") && !(set && (coef == 0 || coef == 0.0))
}
