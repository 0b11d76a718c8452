package config

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity/engine"
)

// A strategy of another program stands for one of this one, and a single warning says which.
func TestStrategiesOfOthers(t *testing.T) {
	sharded := engine.Layout{Strategy: shards, Sequence: 1, Tensor: 1}
	kept, copied, divided, long := sharded, sharded, sharded, sharded
	kept.Gathered, copied.Strategy, divided.Tensor, long.Sequence = true, copies, 2, 4
	for _, c := range []struct {
		overrides string
		want      engine.Layout
		warning   string
	}{
		{"trainer.trainer_strategy=fsdp", sharded, ""},
		{"trainer.trainer_strategy=ddp", copied, ""},
		{"trainer.trainer_strategy=deepspeed trainer.deepspeed.zero_stage=3", sharded, "deepspeed runs as fsdp2: each rank"},
		{"trainer.trainer_strategy=deepspeed trainer.deepspeed.zero_stage=2", kept, "fsdp2 that keeps gathered weights"},
		{"trainer.trainer_strategy=deepspeed trainer.deepspeed.zero_optimization={stage: 1}", kept, "fsdp2 that keeps gathered weights"},
		{"trainer.trainer_strategy=deepspeed trainer.deepspeed.zero_stage=0", copied, "runs as ddp"},
		{"trainer.trainer_strategy=megatron", sharded, "megatron runs as fsdp2: each rank"},
		{"trainer.trainer_strategy=megatron trainer.megatron.tensor_model_parallel_size=2", divided, "matrices of 2 and rows of 1 parts"},
		{"trainer.trainer_strategy=megatron trainer.megatron.context_parallel_size=4", long, "matrices of 1 and rows of 4 parts"},
		{"trainer.ulysses_sequence_parallel_size=4", long, ""},
	} {
		overrides := strings.Split(c.overrides, " trainer")
		for i := range overrides[1:] {
			overrides[i+1] = "trainer" + overrides[i+1]
		}
		cfg := mustParse(t, base, Options{Overrides: append(overrides, "trainer.trainer_type=sharded")})
		if got := cfg.Trainer.Layout(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.overrides, got, c.want)
		}
		said := strings.Join(cfg.Warnings, "\n")
		if strings.Count(said, strategyKey) != min(1, len(c.warning)) || !strings.Contains(said, c.warning) {
			t.Errorf("%s: %q, want %q", c.overrides, said, c.warning)
		}
		embedded := mustParse(t, base, Options{Overrides: append(overrides, "trainer.trainer_type=cpu")})
		if strings.Contains(strings.Join(embedded.Warnings, "\n"), strategyKey) {
			t.Errorf("%s: an engine without ranks warns: %q", c.overrides, embedded.Warnings)
		}
	}
}

// The keys of a ds_config that nobody reads are refused by name, with what to use.
func TestKeysOfDeepSpeed(t *testing.T) {
	for _, c := range []struct{ override, key, words string }{
		{"trainer.deepspeed={}", deepSpeedKey, "set trainer.deepspeed.zero_stage"},
		{"trainer.deepspeed.zero_stage=4", deepSpeedKey, "the stage 4 of ZeRO"},
		{"trainer.deepspeed.zero_stage=auto", deepSpeedKey, "the stage auto of ZeRO"},
		{"trainer.deepspeed={zero_stage: 1, zero_optimization: {stage: 2}}", deepSpeedKey, "the stages 1 and 2 of ZeRO at once"},
		{"trainer.deepspeed={zero_stage: [1], zero_optimization: {stage: [1]}}", deepSpeedKey, "the stage [1] of ZeRO"},
		{"trainer.deepspeed={zero_stage: 1, zero_optimization: {stage: [1]}}", deepSpeedKey, "the stage [1] of ZeRO"},
		{"trainer.deepspeed={zero_stage: 1, gradient_clipping: 1}", deepSpeedKey + ".gradient_clipping", "use trainer.grad_clip"},
		{"trainer.deepspeed={zero_stage: 1, wall_clock_breakdown: true}", deepSpeedKey + ".wall_clock_breakdown", "own code is not used"},
		{"trainer.deepspeed={zero_optimization: {stage: 3, offload_param: {device: nvme}}}",
			deepSpeedKey + ".zero_optimization.offload_param.device", "use cpu or none"},
	} {
		_, err := parse(t, base, Options{Overrides: []string{"trainer.trainer_strategy=deepspeed", "trainer.trainer_type=sharded", c.override}})
		if err == nil || !strings.Contains(err.Error(), c.key+":") || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %s and %q", c.override, err, c.key, c.words)
		}
	}
	offload := []string{"trainer.trainer_type=sharded",
		"trainer.deepspeed={zero_optimization: {stage: 3, offload_param: {device: none}, offload_optimizer: {device: cpu}}}"}
	cfg := mustParse(t, base, Options{Overrides: append(offload, "trainer.trainer_strategy=deepspeed")})
	if params, optimizer := cfg.Trainer.Offload(ActorTree); params || !optimizer {
		t.Errorf("offload %v, %v; want the optimizer alone", params, optimizer)
	}
	cfg = mustParse(t, base, Options{Overrides: offload})
	if _, optimizer := cfg.Trainer.Offload(ActorTree); optimizer {
		t.Error("another strategy reads the keys of DeepSpeed")
	}
	if notes := cfg.settled[0].Unused(); len(notes) == 0 || !strings.HasPrefix(notes[0].Key, deepSpeedKey) {
		t.Errorf("another strategy uses the keys of DeepSpeed: %v", notes)
	}
}

// A micro-batch of a rank holds its part of the longest row.
func TestTokensOfParts(t *testing.T) {
	for engine, want := range map[string]int{"sharded": 4, "cpu": 16} {
		overrides := []string{"trainer.trainer_type=" + engine, "trainer.max_token_len_per_gpu=1", ulyssesKey + "=4"}
		cfg := mustParse(t, base, Options{Overrides: overrides})
		if got := cfg.settled[0].Batch.MicroTokens; got != want {
			t.Errorf("%s: micro-batches of %d tokens, want %d", engine, got, want)
		}
	}
}
