package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/tags"
)

const criticKey = trainerConfigKey + ".critic"

// Critic is veRL's critic section with its defaults, as far as this version reads it.
type Critic struct {
	// Optim defaults to algorithm.optimizer, except for a learning rate of 1e-5 that is constant and
	// has no warm-up.
	Optim Optimizer `yaml:"optim"`
	// How far a value may move in one train step before its gradient is cut.
	CliprangeValue float64 `yaml:"cliprange_value" default:"0.5" range:"(0,)"`
	// Passes over a batch; not set is the actor's number.
	PpoEpochs *int `yaml:"ppo_epochs" range:"[1,)"`
	// Experiences per optimizer step; not set is the actor's number, or the whole batch.
	PpoMiniBatchSize *int `yaml:"ppo_mini_batch_size" range:"[1,)"`
	// Largest norm of the gradient; not set is trainer.grad_clip.
	GradClip *float64 `yaml:"grad_clip" range:"(0,)"`
}

const criticOptimKey = criticKey + ".optim"

// criticOf returns how the trainer trains a critic beside the policy, if the advantage function
// reads its values; else nil.
func criticOf(r report, algorithm *Algorithm, batch *Batch, method *Method, trainer *Trainer, w Work) *Critic {
	if !w.Trains || !method.Needs.Values {
		return nil
	}
	critic := readCritic(r, algorithm.Optimizer)
	inherit(&critic.PpoEpochs, &batch.Epochs)
	if !batch.Whole {
		inherit(&critic.PpoMiniBatchSize, &batch.Mini)
	}
	inherit(&critic.GradClip, &trainer.GradClip)
	return critic
}

// readCritic decodes the known keys of trainer_config.critic and reports mistakes in them.
func readCritic(r report, of Optimizer) *Critic {
	critic := newDefault[Critic]()
	critic.Optim = of
	critic.Optim.LR, critic.Optim.LRSchedulerType, critic.Optim.LRWarmupSteps, critic.Optim.LRWarmupStepsRatio = 1e-5, "constant", -1, 0
	d := &decoder{source: r.source}
	n := r.source.root
	for _, segment := range strings.Split(criticKey, ".") {
		if n != nil {
			n = child(n, segment)
		}
	}
	d.known(n, valueOf(critic), criticKey)
	*r.errs = append(*r.errs, d.errs...)
	tags.Walk(valueOf(critic), criticKey, func(_, v reflect.Value, f reflect.StructField, key string) {
		if below, message, hint := checkValue(v, f); message != "" && r.IsSet(key) {
			r.fail(tags.Join(key, below), message, hint)
		}
	})
	critic.Optim.apart(r, of.OptimizerType)
	return critic
}

// apart completes the critic's optimizer. If its type differs from the policy's, the
// policy's settings for its own type do not apply.
func (o *Optimizer) apart(r report, policys string) {
	set := func(name string) bool { return r.IsSet(criticOptimKey + "." + name) }
	usual := newDefault[Optimizer]()
	another := o.OptimizerType != policys && !(named(o.OptimizerType, adamW...) && named(policys, adamW...))
	if another && !set("betas") {
		o.Betas = usual.Betas
	}
	if another && !set("eps") {
		o.Eps = usual.Eps
	}
	if another && !set("momentum") {
		o.Momentum = nil
	}
	if (another || set("momentum")) && !set("nesterov") {
		o.Nesterov = nil
	}
	o.momentum()
}

// known decodes the keys of a mapping that the struct has, and ignores the others.
func (d *decoder) known(n *yaml.Node, v reflect.Value, key string) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for _, name := range yamlKeys(v.Type()) {
		f, _ := fieldOf(v.Type(), name)
		value, field := child(n, name), v.FieldByIndex(f.Index)
		switch {
		case value == nil:
		case field.Kind() == reflect.Struct:
			d.known(value, field, tags.Join(key, name))
		default:
			d.value(value, field, tags.Join(key, name))
		}
	}
}

// readOfCritic lists the keys of trainer_config.critic that this version reads. Some keys of an
// optimizer make sense only for the policy.
func readOfCritic() []string {
	var all []string
	walkType(reflect.TypeFor[Critic](), criticKey, func(k Key) {
		if k.Type != "section" && !named(lastKey(k.Path), "clip_grad", "warmup_style", "fused", "foreach") {
			all = append(all, k.Path)
		}
	})
	return all
}

// check checks the keys of the critic.
func (critic *Critic) check(r report, algorithm *Algorithm, batch *Batch, trainer *Trainer, w Work) {
	const warmup = "trainer.critic_warmup"
	if critic == nil {
		if trainer.CriticWarmup > 0 && w.Trains {
			r.fail(warmup, "no critic is trained, because advantage_fn "+algorithm.AdvantageFn+" reads no values",
				"remove it, or use an algorithm with a critic, such as ppo")
		}
		return
	}
	critic.Optim.check(r, w, criticOptimKey)
	const miniBatch = criticKey + ".ppo_mini_batch_size"
	if n, batch := critic.PpoMiniBatchSize, batch.Train; r.IsSet(miniBatch) && n != nil && batch > 0 && *n > batch {
		r.fail(miniBatch, fmt.Sprintf("is %d, more than the %d experiences of a train step", *n, batch),
			"lower it or raise buffer.train_batch_size")
	}
}

// words describes the critic that the stage trains, or returns "". before describes the critic
// of an earlier stage.
func (critic *Critic) words(algorithm *Algorithm, batch *Batch, model *Model, trainer *Trainer, before string) string {
	if critic == nil {
		return ""
	}
	from, cuts := model.CriticModelPath, 1
	if n := critic.PpoMiniBatchSize; n != nil {
		cuts = ceil(batch.Train, *n)
	}
	if from == model.ModelPath {
		from = cmp.Or(before, "a copy of the model with a value head")
	} else {
		from += " with a value head"
	}
	words := fmt.Sprintf("%s, all weights trained, learning rate %g", from, critic.Optim.LR)
	if own := critic.Optim.Spec().Type; own != algorithm.Optimizer.Spec().Type {
		words += ", optimizer " + own
	}
	words += ", " + optimizerSteps(*critic.PpoEpochs*cuts) + " each"
	if n := trainer.CriticWarmup; n > 0 {
		words += fmt.Sprintf("; the first %d steps train it alone", n)
	}
	return words
}
