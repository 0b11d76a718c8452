package torch

import (
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// Every key in the engine's table is a key of the configuration, so the table cannot go stale.
func TestSharedKeysExist(t *testing.T) {
	known := map[string]bool{}
	for _, k := range config.Keys() {
		known[k.Path] = true
	}
	for key := range (&plugin{}).Reads(&config.Settled{}) {
		if !strings.HasPrefix(key, "trainer.trainer_config.") && !strings.Contains(key, ".*") && !known[key] {
			t.Error(key)
		}
	}
}

func TestRefusedValues(t *testing.T) {
	theta := 1e6
	for key, set := range map[string]func(c *config.Config){
		"trainer.deepspeed":                           func(c *config.Config) { c.Trainer.TrainerStrategy = "deepspeed" },
		"trainer.megatron.expert_model_parallel_size": func(c *config.Config) { c.Trainer.Megatron.ExpertModelParallelSize = 2 },
		"trainer.deepspeed.bf16.enabled trainer.deepspeed.zero_optimization.overlap_comm": func(c *config.Config) {
			c.Trainer.TrainerStrategy, c.Trainer.Deepspeed = "deepspeed", map[string]any{"zero_optimization": map[string]any{
				"stage": 2, "overlap_comm": true, "offload_param": map[string]any{"device": "cpu"}}, "bf16": map[string]any{"enabled": true}}
		},
		"trainer.megatron.pipeline_model_parallel_size": func(c *config.Config) { c.Trainer.Megatron.PipelineModelParallelSize = 2 },
		"trainer.ulysses_sequence_parallel_size": func(c *config.Config) {
			c.Trainer.UlyssesSequenceParallelSize, c.Trainer.Megatron.ContextParallelSize = 2, 4
		},
		"algorithm.optimizer.optimizer_type": func(c *config.Config) { c.Algorithm.Optimizer.OptimizerType = "adamw_8bit" },
		"model.rope_theta":                   func(c *config.Config) { c.Model.RopeTheta = &theta },
		"":                                   func(c *config.Config) { c.Trainer.TrainerStrategy = "fsdp" },
	} {
		var c config.Config
		set(&c)
		var keys []string
		for _, r := range (&plugin{}).Refuses(&config.Settled{Config: c}) {
			keys = append(keys, r.Key)
		}
		if want := strings.Fields(key); !slices.Equal(keys, want) {
			t.Errorf("refused %v, want %v", keys, want)
		}
	}
}

var _ config.SharedKeys = &plugin{}
