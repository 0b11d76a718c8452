package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/engine"
)

const (
	strategyKey  = "trainer.trainer_strategy"
	deepSpeedKey = "trainer.deepspeed"
	ulyssesKey   = "trainer.ulysses_sequence_parallel_size"
)

// The strategies of others. What each stands for is in docs/decisions/0031.
const (
	deepSpeed = "deepspeed"
	megatron  = "megatron"

	shards, copies = "fsdp2", "ddp"
)

// Layout returns how ranks divide the model. Strategies of others stand for those of this program.
func (t *Trainer) Layout() engine.Layout {
	l := engine.Layout{
		Strategy: t.TrainerStrategy, Tensor: t.Megatron.TensorModelParallelSize,
		Sequence: max(t.UlyssesSequenceParallelSize, t.Megatron.ContextParallelSize),
	}
	switch t.TrainerStrategy {
	case "fsdp", megatron:
		l.Strategy = shards
	case deepSpeed:
		stage, _ := t.zeroStage()
		l.Strategy, l.Gathered = shards, stage == 1 || stage == 2
		if stage == 0 {
			l.Strategy = copies
		}
	}
	return l
}

// zeroStage returns ZeRO's stage, and what is wrong with it.
func (t *Trainer) zeroStage() (stage int, wrong string) {
	all := leavesOf(t.Deepspeed, "")
	short, isShort := all["zero_stage"]
	long, isLong := all["zero_optimization.stage"]
	stage, other := -1, -1
	for _, s := range []struct {
		value any
		given bool
		to    *int
	}{{short, isShort, &stage}, {long, isLong, &other}} {
		n, whole := s.value.(int) // a list cannot be compared
		if s.given && (!whole || n < 0 || n > 3) {
			return 3, fmt.Sprintf("the stage %v of ZeRO", s.value)
		}
		if s.given {
			*s.to = n
		}
	}
	switch {
	case !isShort && !isLong:
		return 3, "DeepSpeed without a stage of ZeRO"
	case isShort && isLong && stage != other:
		return 3, fmt.Sprintf("the stages %d and %d of ZeRO at once", stage, other)
	}
	return max(stage, other), ""
}

// zeroOffload reports what a ds_config keeps in host memory while it is not in use.
func (t *Trainer) zeroOffload() (params, optimizer bool) {
	all := leavesOf(t.Deepspeed, "")
	on := func(part string) bool {
		device, set := all["zero_optimization."+part+".device"]
		return set && t.TrainerStrategy == deepSpeed && device != "none"
	}
	return on("offload_param"), on("offload_optimizer")
}

// leavesOf returns the values of a tree by their keys, which dots join.
func leavesOf(tree map[string]any, at string) map[string]any {
	all := map[string]any{}
	for key, value := range tree {
		if inner, ok := value.(map[string]any); ok {
			maps.Copy(all, leavesOf(inner, at+key+"."))
		} else {
			all[at+key] = value
		}
	}
	return all
}

const offloadDevices = "cpu none"

// deepSpeedHints say what to use in the place of keys of a ds_config. A key includes those below it.
var deepSpeedHints = map[string]string{
	"train_batch_size":               "use buffer.train_batch_size",
	"train_micro_batch_size_per_gpu": "use trainer.max_token_len_per_gpu",
	"gradient_accumulation_steps":    "leave it out: micro-batches are cut by tokens, and the gradient does not depend on it",
	"gradient_clipping":              "use trainer.grad_clip",
	"optimizer":                      "use algorithm.optimizer",
	"scheduler":                      "use algorithm.optimizer.lr_scheduler_type",
	"bf16":                           "use compute_dtype of trainer.trainer_args; weights are float32",
	"fp16":                           "use compute_dtype bf16 of trainer.trainer_args, which needs no loss scale",
	"activation_checkpointing":       "use recompute of trainer.trainer_args",
	"zero_optimization":              "leave it out: it tunes DeepSpeed's own code, which is not used",
	"zero_stage":                     "",
}

// RefusedStrategies returns the keys of DeepSpeed and Megatron that an engine refuses which maps their strategies to its own.
func (t *Trainer) RefusedStrategies() (all []Refusal) {
	if t.TrainerStrategy == deepSpeed {
		all = t.refusedDeepSpeed()
	}
	if n, other := t.UlyssesSequenceParallelSize, t.Megatron.ContextParallelSize; min(n, other) > 1 && n != other {
		all = append(all, Refusal{Key: ulyssesKey, What: fmt.Sprintf("rows of %d and of %d parts at once", n, other),
			Hint: "leave out trainer.megatron.context_parallel_size, which means the same"})
	}
	const stay = "leave it out"
	for _, r := range []struct {
		key, what, hint string
		n               int
	}{
		{"pipeline_model_parallel_size", "stages of layers, whose schedule needs the loss inside the worker",
			"use fsdp2, or tensor_model_parallel_size: both need less memory for activations", t.Megatron.PipelineModelParallelSize},
		{"virtual_pipeline_model_parallel_size", "stages of layers", stay, Value(1, t.Megatron.VirtualPipelineModelParallelSize)},
		{"expert_model_parallel_size", "whole experts on ranks", "use fsdp2, which shards each expert: the memory is the same",
			t.Megatron.ExpertModelParallelSize},
		{"expert_tensor_parallel_size", "parts of experts on ranks", "use fsdp2, which shards each expert: the memory is the same",
			Value(1, t.Megatron.ExpertTensorParallelSize)},
	} {
		if r.n > 1 {
			all = append(all, Refusal{Key: "trainer.megatron." + r.key, What: r.what, Hint: r.hint})
		}
	}
	return all
}

func (t *Trainer) refusedDeepSpeed() (all []Refusal) {
	if _, wrong := t.zeroStage(); wrong != "" {
		all = append(all, Refusal{Key: deepSpeedKey, What: wrong, Hint: "set trainer.deepspeed.zero_stage to 0, 1, 2 or 3"})
	}
	leaves := leavesOf(t.Deepspeed, "")
	for _, key := range slices.Sorted(maps.Keys(leaves)) {
		value := leaves[key]
		switch key {
		case "zero_stage", "zero_optimization.stage":
			continue
		case "zero_optimization.offload_param.device", "zero_optimization.offload_optimizer.device":
			if !slices.Contains(strings.Fields(offloadDevices), fmt.Sprint(value)) {
				all = append(all, Refusal{Key: deepSpeedKey + "." + key, What: fmt.Sprintf("the device %v", value), Hint: "use cpu or none"})
			}
			continue
		}
		hint, ok := deepSpeedHints[strings.Split(key, ".")[0]]
		if !ok {
			hint = "leave it out: DeepSpeed's own code is not used"
		}
		all = append(all, Refusal{Key: deepSpeedKey + "." + key, What: "this key of a ds_config", Hint: hint})
	}
	return all
}

// warnOfStrategy says what runs under the name of another program's strategy.
func (t *Trainer) warnOfStrategy(r report) {
	if t.TrainerStrategy != deepSpeed && t.TrainerStrategy != megatron {
		return
	}
	const owns = "each rank has a shard of weights, gradients and moments"
	l, text := t.Layout(), ""
	switch {
	case l.Strategy == copies:
		text = "runs as ddp: each rank has a copy of weights, gradients and moments"
	case l.Gathered:
		text = "runs as fsdp2 that keeps gathered weights from the forward to the backward pass: " + owns
	case l.Tensor > 1 || l.Sequence > 1:
		text = fmt.Sprintf("runs as fsdp2 over matrices of %d and rows of %d parts: %s", l.Tensor, l.Sequence, owns)
	default:
		text = "runs as fsdp2: " + owns
	}
	r.warn(strategyKey, "%s %s", t.TrainerStrategy, text)
}
