package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wire/tinker"
	"github.com/trinity-go/trinity/registry"
)

// Tinker is training and sampling through the Tinker API, hosted or self-hosted.
type Tinker struct {
	// Train and sample through the service: it sets trainer_type and engine_type, and each of them sets it.
	Enable bool `yaml:"enable"`
	// Rank of the LoRA adapter that the service trains.
	Rank int `yaml:"rank" default:"16" range:"[1,)"`
	// Seed of the adapter's initial weights; not set is the run's seed.
	Seed *int `yaml:"seed"`
	// Train the feed-forward layers.
	TrainMlp bool `yaml:"train_mlp" default:"true"`
	// Train the attention layers.
	TrainAttn bool `yaml:"train_attn" default:"true"`
	// Train the output head.
	TrainUnembed bool `yaml:"train_unembed" default:"true"`
	// Address of the service; empty is the variable TINKER_BASE_URL, else the hosted service. The variable
	// TINKER_API_KEY has the key.
	BaseURL string `yaml:"base_url"`
	// Loss that the service computes in one pass: trinity_ppo. Empty is the run's own loss, exactly, in
	// two passes (newest upstream).
	ServerLossFn string `yaml:"server_loss_fn"`
	// Largest payload of one forward/backward request, in bytes; not set is what the service asks for
	// (newest upstream).
	ForwardBackwardChunkBytes *int `yaml:"forward_backward_chunk_bytes" range:"[1,)"`
	// Name of the base model at the service; empty is model.model_path. Own key of Trinity-Go.
	BaseModel string `yaml:"base_model"`
}

const (
	tinkerKey = "model.tinker"
	enableKey = tinkerKey + ".enable"
)

// settleTinker makes a service train and sample if any key asks for it. An engine of the command line takes the service's place,
// and trains an equal adapter.
func settleTinker(r report, engines *Engines, explorer *Explorer, model *Model, trainer *Trainer) {
	t, given := &model.Tinker, r.source.opts.Engine
	asks := t.Enable || trainer.TrainerType == tinkerEngine || explorer.RolloutModel.EngineType == tinkerEngine
	isReplaced := given != "" && given != "auto" && given != tinkerEngine
	if r.source.Pos(trainerTypeKey).File == commandLine && trainer.TrainerType != tinkerEngine {
		isReplaced = true
	}
	if !asks && given != tinkerEngine || isReplaced && !t.Enable {
		return
	}
	adapter := []Lora{{LoraDtype: "auto", LoRASpec: engine.LoRASpec{
		LoraRank: t.Rank, LoraAlpha: tinkerAlpha, TargetModules: tinker.Modules(t.TrainMlp, t.TrainAttn, t.TrainUnembed),
		BaseModelName: cmp.Or(t.BaseModel, model.ModelPath),
	}}}
	if len(model.LoraConfigs) > 0 && !reflect.DeepEqual(model.LoraConfigs, adapter) {
		r.fail("model.lora_configs", "the adapter of a service is described by model.tinker", "leave it out, and set model.tinker.rank")
	}
	model.LoraConfigs = adapter
	if t.Enable, engines.insteadOfService = !isReplaced, isReplaced; isReplaced {
		return
	}
	trainer.TrainerType, explorer.RolloutModel.EngineType = tinkerEngine, tinkerEngine
	if !t.TrainMlp && !t.TrainAttn && !t.TrainUnembed {
		r.fail(tinkerKey+".train_unembed", "with train_mlp, train_attn and train_unembed false there is nothing to train",
			"set one of them to true")
	}
	if _, err := tinker.Address(t.BaseURL); err != nil {
		r.fail(tinkerKey+".base_url", err.Error(), "write an address, or leave it out and set TINKER_BASE_URL")
	}
	if r.source.stage != "" {
		r.fail(enableKey, "a stage begins with the model that the stage before has written, and a service trains none of this machine",
			"run the stages one by one, without stages")
	}
}

// unused returns why a key of model.tinker has no effect, "" if it has one.
func (t *Tinker) unused(engines *Engines, key string) string {
	describesAdapter := slices.Contains([]string{"rank", "train_mlp", "train_attn", "base_model"}, lastKey(key))
	switch {
	case t.Enable, engines.insteadOfService && describesAdapter:
		return ""
	case engines.insteadOfService:
		return "the command line names another engine, which trains an equal adapter"
	}
	return "the Tinker API is not used"
}

// tinkerAlpha is the lora_alpha that a service takes, as far as is known: it is not on the wire.
const tinkerAlpha = 32

// dropEntropy leaves out an entropy term without weight, whose only effect is a metric: a service has no entropies.
func (t *Tinker) dropEntropy(method *Method) {
	if p := method.Parts; t.Enable && p != nil && entropyCoef(p.Entropy, p.EntropyArgs) == 0 {
		p.Entropy, p.EntropyArgs = "none", nil
	}
}

// WeighsEntropy reports whether the loss has an entropy term with a weight.
func (m *Method) WeighsEntropy() bool {
	return m.Parts != nil && entropyCoef(m.Parts.Entropy, m.Parts.EntropyArgs) != 0
}

// entropyCoef returns the weight of an entropy term.
func entropyCoef(name string, args map[string]any) float64 {
	if catalog, ok := registry.Find("entropy_loss_fn"); ok {
		if term, ok := catalog.Default(name, args).(interface{ Coef() float64 }); ok {
			return term.Coef()
		}
	}
	return 0
}

// Service returns what the engines need to know of the service; nothing if the run has none.
func (m *Model) Service(seed int, method *Method) engine.ServiceSpec {
	t := &m.Tinker
	if !t.Enable {
		return engine.ServiceSpec{External: m.ExternalModel.spec()}
	}
	spec := engine.ServiceSpec{
		BaseModel: m.LoraConfigs[0].BaseModelName, Address: t.BaseURL, Seed: int64(Value(seed, t.Seed)), MLP: t.TrainMlp,
		Attention: t.TrainAttn, Unembed: t.TrainUnembed, ServerLoss: t.ServerLossFn, ChunkBytes: Value(0, t.ForwardBackwardChunkBytes),
	}
	if spec.ServerLoss != "" {
		spec.LossConfig, _ = method.serverLoss()
	}
	return spec
}

// serverLoss returns the settings of the loss trinity_ppo, and why it is not the loss of this run; "" if it is.
func (m *Method) serverLoss() (settings map[string]float64, why string) {
	p := m.Parts
	if p == nil {
		return nil, ""
	}
	given := func(args map[string]any, name string, usual float64) float64 {
		switch v := args[name].(type) {
		case int:
			return float64(v)
		case float64:
			return v
		}
		return usual
	}
	args, kl := p.PolicyLossArgs, p.KLLossArgs
	clip := given(args, "clip_range", 0.2)
	settings = map[string]float64{"clip_range": clip, "clip_ratio_c": given(args, "clip_ratio_c", 3), "kl_coef": 0}
	if weighs(p.KLLoss, kl) {
		settings["kl_coef"] = given(kl, "kl_coef", 0.001)
	}
	mode := aggregation(p)
	switch {
	case p.PolicyLoss != "ppo":
		why = "it is the clipped loss of PPO, and algorithm.policy_loss_fn is " + p.PolicyLoss
	case given(args, "clip_range_low", clip) != clip || given(args, "clip_range_high", clip) != clip || clip < 0 || clip >= 1:
		why = "it clips by clip_range on both sides, from 0 to below 1"
	case args["enable_sequence_masking"] == true || args["fallback_to_policy_gradient"] == true:
		why = "it has neither sequence masking nor a fallback to the policy gradient"
	case settings["kl_coef"] > 0 && p.KLLoss != serverLossKL:
		why = "its KL term is " + serverLossKL + ", and algorithm.kl_loss_fn is " + p.KLLoss
	case kl["adaptive"] == true:
		why = "its KL term has a constant weight"
	case mode != tokenMean && mode != "seq-mean-token-mean":
		why = "it takes the mean of each sequence, and loss_agg_mode is " + mode
	}
	return settings, why
}

const tokenMean = "token-mean"

// aggregation returns the loss_agg_mode of the policy loss.
func aggregation(p *trinity.Algorithm) string {
	own, _ := p.PolicyLossArgs["loss_agg_mode"].(string)
	return cmp.Or(own, p.LossAggMode, tokenMean)
}

// check refuses a loss of the service that is not the run's.
func (t *Tinker) check(r report, method *Method, w Work) {
	const key = tinkerKey + ".server_loss_fn"
	if !t.Enable || t.ServerLossFn == "" || !w.Trains {
		return
	}
	const hint = "leave it out: the run's own loss is then computed in two passes"
	if t.ServerLossFn != "trinity_ppo" {
		r.fail(key, fmt.Sprintf("%q is no loss that this program knows of services", t.ServerLossFn), "set it to trinity_ppo, or "+hint)
		return
	}
	if _, why := method.serverLoss(); why != "" {
		r.fail(key, "trinity_ppo is another loss: "+why, hint)
	} else if method.Parts != nil && aggregation(method.Parts) == tokenMean {
		r.warn(key, "trinity_ppo takes the mean of the tokens of each sequence, and then of the sequences, where loss_agg_mode %s takes that of "+
			"all tokens: long sequences count for less", tokenMean)
	}
}

// serviceWords tells what leaves the machine.
func (c *planner) serviceWords() []string {
	if !c.run.Model.Tinker.Enable {
		return nil
	}
	address, err := tinker.Address(c.run.Model.Tinker.BaseURL)
	if err != nil {
		return nil
	}
	service := c.run.Model.Service(c.run.Seed, &c.run.Method)
	words := []string{fmt.Sprintf("service: %s, base model %s; TINKER_API_KEY has the key", address, service.BaseModel)}
	if c.run.Samples {
		words = append(words, "leaves: token ids of prompts, to be continued")
	}
	if !c.run.Trains {
		return words
	}
	what := "the derivatives of the loss by their log-probabilities, which follow from the rewards"
	passes := 1 + 1 // forward, then both
	if service.ServerLoss != "" {
		what, passes = "their advantages, which follow from the rewards", 1
	}
	if c.run.Method.Reference {
		passes++
	}
	if c.run.Method.Recomputes {
		passes++
	}
	tokens := int64(c.run.Batch.Train*c.run.Batch.PerRow*c.run.Batch.Epochs) * int64(*c.run.Model.MaxModelLen)
	return append(words,
		"leaves: token ids of prompts and replies, and "+what,
		fmt.Sprintf("leaves: at most %s tokens a train step, %d times each", thousands(tokens), passes))
}
