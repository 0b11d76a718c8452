package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"
)

const criticKey = trainerConfigKey + ".critic"

// Critic is what is read of veRL's critic section, with its defaults.
type Critic struct {
	Optim            CriticOptim `yaml:"optim"`
	CliprangeValue   float64     `yaml:"cliprange_value" default:"0.5" range:"(0,)"` // how far a value may move in one train step before its gradient is cut
	PpoEpochs        *int        `yaml:"ppo_epochs" range:"[1,)"`                    // passes over a batch; not set is the actor's
	PpoMiniBatchSize *int        `yaml:"ppo_mini_batch_size" range:"[1,)"`           // experiences per optimizer step; not set is the actor's
	GradClip         *float64    `yaml:"grad_clip" range:"(0,)"`                     // largest norm of the gradient; not set is trainer.grad_clip
}

// CriticOptim is the learning rate of the critic. The rest of its optimizer, the type included, is that of algorithm.optimizer.
type CriticOptim struct {
	LR                 float64 `yaml:"lr" default:"1e-5" range:"[0,)"`
	LRSchedulerType    string  `yaml:"lr_scheduler_type" default:"constant" enum:"constant|cosine|linear|wsd"`
	LRWarmupStepsRatio float64 `yaml:"lr_warmup_steps_ratio" default:"0.0" range:"[0,1]"` // of the steps of the run
}

// TrainsCritic reports whether a critic is trained beside the policy: the advantage function reads its values.
func (c *Config) TrainsCritic() bool { return c.trains() && c.needs().Values }

// Critic says how the critic is trained.
func (c *Config) Critic() *Critic {
	critic, _ := c.readCritic()
	inherit(&critic.PpoEpochs, ptr(c.Epochs()))
	inherit(&critic.PpoMiniBatchSize, ptr(c.MiniBatch()))
	inherit(&critic.GradClip, ptr(c.GradClip()))
	return critic
}

// readCritic decodes what is known of trainer_config.critic, and reports what is wrong with it.
func (c *Config) readCritic() (*Critic, Errors) {
	critic := newDefault[Critic]()
	d := &decoder{source: c.source}
	n := c.source.root
	for _, segment := range strings.Split(criticKey, ".") {
		if n != nil {
			n = child(n, segment)
		}
	}
	d.known(n, valueOf(critic), criticKey)
	errs := d.errs
	walkValues(valueOf(critic), criticKey, func(f reflect.StructField, v reflect.Value, key string) {
		var message, hint string
		if enum := f.Tag.Get("enum"); enum != "" {
			message, hint = checkEnum(v, strings.Split(enum, "|"))
		} else if text := f.Tag.Get("range"); text != "" {
			message = checkRange(v, text)
		}
		if message != "" {
			errs = append(errs, c.errorFor(key, message, hint))
		}
	})
	return critic, errs
}

// known decodes the keys of a mapping that a struct has, and leaves the others.
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
			d.known(value, field, join(key, name))
		default:
			d.value(value, field, join(key, name))
		}
	}
}

// readOfCritic lists the keys of trainer_config.critic that are read.
func readOfCritic() []string {
	var all []string
	walkType(reflect.TypeFor[Critic](), criticKey, func(k Key) {
		if k.Type != "section" {
			all = append(all, k.Path)
		}
	})
	return all
}

// critic checks what is said of a critic.
func (r *rules) critic() {
	const warmup = "trainer.critic_warmup"
	if !r.TrainsCritic() {
		if r.Trainer.CriticWarmup > 0 && r.trains() {
			r.fail(warmup, "no critic is trained, because advantage_fn "+r.Algorithm.AdvantageFn+" reads no values", "remove it, or use an algorithm with a critic, such as ppo")
		}
		return
	}
	critic, errs := r.readCritic()
	r.errs = append(r.errs, errs...)
	r.needsSteps(criticKey+".optim", critic.Optim.LRSchedulerType, critic.Optim.LRWarmupStepsRatio, "")
	if n, batch := critic.PpoMiniBatchSize, r.Buffer.TrainBatchSize; n != nil && batch > 0 && *n > batch {
		r.fail(criticKey+".ppo_mini_batch_size", fmt.Sprintf("is %d, more than the %d experiences of a train step", *n, batch), "lower it or raise buffer.train_batch_size")
	}
}

// criticWords say what critic is trained; "" for none.
func (c *Config) criticWords() string {
	if !c.TrainsCritic() {
		return ""
	}
	critic, from := c.Critic(), c.Model.CriticModelPath
	if from == c.Model.ModelPath {
		from = "a copy of the model"
	}
	words := fmt.Sprintf("%s with a value head, all weights trained, learning rate %g, %d optimizer steps each", from, critic.Optim.LR,
		*critic.PpoEpochs*ceil(c.Buffer.TrainBatchSize, *critic.PpoMiniBatchSize))
	if n := c.Trainer.CriticWarmup; n > 0 {
		words += fmt.Sprintf("; the first %d steps train it alone", n)
	}
	return words
}
