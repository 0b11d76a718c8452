package torch

import (
	"fmt"
	"testing"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestIsAnEngine(t *testing.T) {
	momentum, lora, critic, savedCritic := trained("llama"), trained("qwen2"), tiny("qwen2"), tiny("critic")
	momentum.Optimizer = engine.OptimizerSpec{Type: engine.SGD, Momentum: 0.9, Nesterov: true}
	lora.LoRA, lora.Seed = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}, 1
	tied := trained("llama3_bias_tied")
	tied.LoRA = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8, TargetModules: engine.Names{model.AllLinear, model.OutputHead}}
	experts := trained("qwen3_moe")
	experts.LoRA = &engine.LoRASpec{LoraRank: 2, LoraAlpha: 8, TargetParameters: engine.Names{"experts.gate_up_proj", "experts.down_proj"}}
	critic.Train, critic.Head, critic.Seed = true, engine.ValueHead, 1
	savedCritic.Train, savedCritic.Head = true, engine.ValueHead
	copies := trained("llama")
	copies.Strategy = "ddp"
	t.Run("ddp", func(t *testing.T) {
		p := onRanks(t, 2)
		trinitytest.Engine(t, func(t *testing.T) trinitytest.Trained {
			return trinitytest.Trained{Engine: opened(t, p, copies), Targets: true}
		})
	})
	for _, ranks := range []int{1, 2} {
		for name, spec := range map[string]engine.TrainerSpec{
			"all weights": trained("llama"), "momentum": momentum, "adapters": lora, "adapter of a tied head": tied,
			"adapter of experts": experts, "critic": critic, "saved critic": savedCritic,
		} {
			t.Run(fmt.Sprintf("%s, ranks: %d", name, ranks), func(t *testing.T) {
				p := onRanks(t, ranks)
				trinitytest.Engine(t, func(t *testing.T) trinitytest.Trained {
					return trinitytest.Trained{Engine: opened(t, p, spec), Value: spec.Head == engine.ValueHead, Targets: true}
				})
			})
		}
	}
}
