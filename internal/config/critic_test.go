package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// criticBase is base with an algorithm that has a critic.
var criticBase = strings.Replace(base, "algorithm_type: grpo", "algorithm_type: grpo\n  advantage_fn: ppo", 1)

func TestCritic(t *testing.T) {
	const actor, critic = "trainer.trainer_config.actor_rollout_ref.actor", "trainer.trainer_config.critic"
	for _, c := range []struct {
		overrides []string
		clip      float64
		epochs    int
		mini      int // 0 is the whole batch
		norm      float64
	}{
		{nil, 0.5, 1, 0, 1},
		{[]string{actor + "={ppo_mini_batch_size: 2, ppo_epochs: 3}", "trainer.grad_clip=0.25"}, 0.5, 3, 2, 0.25},
		{[]string{critic + "={cliprange_value: 10, ppo_mini_batch_size: 4, ppo_epochs: 5, grad_clip: 2, strategy: fsdp}"}, 10, 5, 4, 2},
	} {
		cfg := mustParse(t, criticBase, Options{Overrides: c.overrides})
		if got := cfg.settled[0].Critic; cfg.settled[0].Critic == nil || got.CliprangeValue != c.clip || *got.PpoEpochs != c.epochs ||
			(got.PpoMiniBatchSize == nil) != (c.mini == 0) || c.mini > 0 && *got.PpoMiniBatchSize != c.mini || *got.GradClip != c.norm {
			t.Errorf("%v: %+v, want %+v", c.overrides, *got, c)
		}
	}
	for _, none := range []string{base, offlineBase, strings.Replace(criticBase, "mode: both", "mode: explore", 1)} {
		if mustParse(t, none).settled[0].Critic != nil {
			t.Errorf("a critic in\n%s", none)
		}
	}
}

// The critic has the policy's optimizer with its own learning rate, unless its section sets other
// values.
func TestCriticOptimizer(t *testing.T) {
	usual := Optimizer{LR: 1e-5, LRSchedulerType: "constant", LRWarmupSteps: -1, MinLRRatio: 0.01, LRDecayStepsRatio: 0.1,
		OptimizerType: "adam", Betas: []float64{0.9, 0.999},
		Eps: 1e-8, WeightDecay: 0.01, ClipGrad: 1}
	for _, c := range []struct {
		policy, critic string
		change         func(o *Optimizer)
	}{
		{"{}", "{lr: 1e-5}", func(*Optimizer) {}},
		{"{lr: 3, lr_warmup_steps: 7, lr_scheduler_type: cosine}", "{lr: 1e-5}", func(*Optimizer) {}},
		{"{min_lr_ratio: 0.5, weight_decay: 0.25, betas: [0.5, 0.75], eps: 0.125}", "{lr: 1e-5}", func(o *Optimizer) {
			o.MinLRRatio, o.WeightDecay, o.Betas, o.Eps = 0.5, 0.25, []float64{0.5, 0.75}, 0.125
		}},
		{"{}", "{lr: 2e-3, lr_scheduler_type: Cosine, lr_warmup_steps_ratio: 0.1, min_lr_ratio: 0, weight_decay: 0, betas: [0.5, 0.75], eps: 0.125}", func(o *Optimizer) {
			o.LR, o.LRSchedulerType, o.LRWarmupStepsRatio, o.MinLRRatio, o.WeightDecay, o.Betas, o.Eps = 2e-3, "cosine", 0.1, 0, 0,
				[]float64{0.5, 0.75}, 0.125
		}},
		{"{}", "{lr_scheduler_type: wsd, lr_decay_steps_ratio: 0.5, lr_warmup_steps: 4}", func(o *Optimizer) {
			o.LRSchedulerType, o.LRDecayStepsRatio, o.LRWarmupSteps = "wsd", 0.5, 4
		}},
		{"{optimizer_type: muon, momentum: 0.5}", "{lr: 1e-5}", func(o *Optimizer) {
			o.OptimizerType, o.Momentum, o.Nesterov = "muon", ptr(0.5),
				ptr(true)
		}},
		{"{optimizer_type: muon, momentum: 0.5}", "{momentum: 0}", func(o *Optimizer) {
			o.OptimizerType, o.Momentum, o.Nesterov = "muon",
				ptr(0.0), ptr(false)
		}},
		{"{betas: [0.5, 0.75]}", "{optimizer_type: adamw}", func(o *Optimizer) { o.OptimizerType, o.Betas = "adamw", []float64{0.5, 0.75} }},
		{"{betas: [0.5, 0.75]}", "{optimizer_type: adamw_8bit}", func(o *Optimizer) {
			o.OptimizerType, o.Betas = "adamw_8bit",
				[]float64{0.5, 0.75}
		}},
		{"{betas: [0.5, 0.75], eps: 0.125, weight_decay: 0}", "{optimizer_type: SGD}", func(o *Optimizer) {
			o.OptimizerType, o.Momentum, o.Nesterov, o.WeightDecay = "sgd", ptr(0.9), ptr(false), 0
		}},
		{"{optimizer_type: muon, momentum: 0.5}", "{optimizer_type: adam}", func(*Optimizer) {}},
		{"{optimizer_type: sgd, momentum: 0.5}", "{optimizer_type: muon, nesterov: false}",
			func(o *Optimizer) { o.OptimizerType, o.Momentum, o.Nesterov = "muon", ptr(0.95), ptr(false) }},
	} {
		want := usual
		c.change(&want)
		cfg := mustParse(t, criticBase, Options{Overrides: []string{"algorithm.optimizer=" + c.policy,
			criticKey + "={cliprange_value: 1, optim: " + c.critic + "}"}})
		if got := cfg.settled[0].Critic.Optim; !reflect.DeepEqual(got, want) {
			t.Errorf("%s with %s: %+v, want %+v", c.policy, c.critic, got, want)
		}
	}
}

func TestRefusedCritics(t *testing.T) {
	const key = "trainer.trainer_config.critic"
	for _, c := range []struct {
		value, key, words string
		unsupported       bool
	}{
		{"{optim: {lr: -1}}", ".optim.lr", "is -1, must be at least 0", false},
		{"{optim: {lr: fast}}", ".optim.lr", "wants a number", false},
		{"{optim: {lr_scheduler_type: cosin}}", ".optim.lr_scheduler_type", `did you mean "cosine"`, false},
		{"{optim: {lr_warmup_steps_ratio: 2}}", ".optim.lr_warmup_steps_ratio", "at most 1", false},
		{"{cliprange_value: 0}", ".cliprange_value", "must be more than 0", false},
		{"{ppo_epochs: 0}", ".ppo_epochs", "at least 1", false},
		{"{ppo_mini_batch_size: 9}", ".ppo_mini_batch_size", "more than the 8 experiences", false},
		{"{grad_clip: 0}", ".grad_clip", "must be more than 0", false},
		{"{optim: {optimizer_type: muno}}", ".optim.optimizer_type", `did you mean "muon"`, false},
		{"{optim: {momentum: 0.9}}", ".optim.momentum", "has no effect: AdamW's is the first of betas", false},
		{"{optim: {optimizer_type: sgd, betas: [0.9, 0.95]}}", ".optim.betas", "has no effect: SGD", false},
		{"{optim: {betas: [0.9]}}", ".optim.betas", "Adam has two", false},
		{"{optim: {lr_decay_steps_ratio: 0.5}}", ".optim.lr_decay_steps_ratio", "only lr_scheduler_type wsd", false},
		{"{optim: {num_cycles: 2}}", ".optim.num_cycles", "takes the keys of algorithm.optimizer", true},
		{"{optim: {clip_grad: 2}}", ".optim.clip_grad", "use grad_clip of critic", true},
		{"{shuffle: true}", ".shuffle", "critic takes optim", true},
	} {
		t.Run(c.value, func(t *testing.T) { expectError(t, criticBase, key+"="+c.value, key+c.key, c.words, c.unsupported) })
	}
}

func TestCriticScheduleNeedsTheNumberOfSteps(t *testing.T) {
	const optim = "trainer.trainer_config.critic.optim"
	online := []string{"mode=train", "buffer.train_batch_size=8"}
	for set, key := range map[string]string{"{lr_scheduler_type: cosine}": ".lr_scheduler_type",
		"{lr_warmup_steps_ratio: 0.1}": ".lr_warmup_steps_ratio"} {
		overrides := append(slices.Clone(online), optim+"="+set)
		if _, err := parse(t, criticBase, Options{Overrides: overrides}); err == nil || !strings.Contains(err.Error(), optim+key+": ") ||
			!strings.Contains(err.Error(), "set trainer.total_steps") {
			t.Errorf("%s: %v", set, err)
		}
		mustParse(t, criticBase, Options{Overrides: append(overrides, "trainer.total_steps=10")})
		mustParse(t, criticBase, Options{Overrides: []string{optim + "=" + set}})
	}
	mustParse(t, criticBase, Options{Overrides: online})
}

func TestUnusedCritic(t *testing.T) {
	overrides := []string{"model.critic_model_path=c", "trainer.trainer_config.critic={optim: {lr: 1e-3}, strategy: fsdp, model: {use_remove_padding: true}}"}
	for text, want := range map[string][]string{
		base: {"model.critic_model_path", "trainer.trainer_config.critic.optim.lr", "trainer.trainer_config.critic.strategy",
			"trainer.trainer_config.critic.model.use_remove_padding"},
		criticBase: {"trainer.trainer_config.critic.strategy", "trainer.trainer_config.critic.model.use_remove_padding"},
	} {
		var keys []string
		for _, n := range mustParse(t, text, Options{Overrides: overrides}).settled[0].Unused() {
			keys = append(keys, n.Key)
		}
		slices.Sort(keys)
		slices.Sort(want)
		if !slices.Equal(keys, want) {
			t.Errorf("unused are %v, want %v", keys, want)
		}
	}
}

// An advantage function with a critic subtracts a penalty from the rewards of tokens and takes
// single rollouts.
func TestCriticNeedsNoGroup(t *testing.T) {
	cfg := mustParse(t, criticBase, Options{Overrides: []string{"algorithm.repeat_times=1", "algorithm.kl_penalty_fn=k1",
		"algorithm.kl_loss_fn=none"}})
	if cfg.settled[0].Method.GroupSize != 1 || !cfg.settled[0].Method.Reference {
		t.Errorf("group size %d, reference %t", cfg.settled[0].Method.GroupSize, cfg.settled[0].Method.Reference)
	}
}

func TestReferenceNeedsAWeight(t *testing.T) {
	for _, c := range []struct {
		overrides []string
		want      bool
	}{
		{nil, true}, // grpo's k2
		{[]string{"algorithm.kl_loss_fn=none"}, false},
		{[]string{"algorithm.kl_loss_fn_args={kl_coef: 0}"}, false},
		{[]string{"algorithm.kl_loss_fn_args={kl_coef: 0.0}"}, false},
		{[]string{"algorithm.kl_loss_fn=none", "algorithm.kl_penalty_fn=k1"}, true},
		{[]string{"algorithm.kl_loss_fn=none", "algorithm.kl_penalty_fn=k1", "algorithm.kl_penalty_fn_args={kl_coef: 0}"}, false},
	} {
		if got := mustParse(t, criticBase, Options{Overrides: c.overrides}).settled[0].Method.Reference; got != c.want {
			t.Errorf("%v: %t, want %t", c.overrides, got, c.want)
		}
	}
}

func TestPlanOfACritic(t *testing.T) {
	p, err := mustParse(t, criticBase, Options{Overrides: []string{"model.critic_model_path=c", "trainer.critic_warmup=3",
		"trainer.trainer_config.critic={ppo_mini_batch_size: 3, ppo_epochs: 2}"}}).
		Plan(Facts{Model: tiny, Fetch: map[string]string{"model.critic_model_path": "c"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"critic       c with a value head, all weights trained, learning rate 1e-05, 6 optimizer steps each; the first 3 steps train it alone",
		"fetches      model.critic_model_path: c"} {
		if !strings.Contains(p.String(), words) {
			t.Errorf("no %q in\n%s", words, p)
		}
	}
	stages := []string{"stages=[{stage_name: one}, {stage_name: two}]", criticOptimKey + "={optimizer_type: sgd}"}
	if p, err = mustParse(t, criticBase, Options{Overrides: stages}).Plan(Facts{Model: tiny}); err != nil {
		t.Fatal(err)
	}
	for i, words := range []string{"a copy of the model with a value head, all weights trained, learning rate 1e-05, optimizer sgd,",
		"the critic of stage one, all weights trained"} {
		if got := planned[string](p.Stages[i], "critic"); !strings.HasPrefix(got, words) {
			t.Errorf("the critic of stage %d is %s, want %s", i, got, words)
		}
	}
}
