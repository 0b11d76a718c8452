package model

var _ = register("qwen3_moe", family{
	class: "Qwen3MoeForCausalLM", hasAttentionBias: true, variation: variation{QKNorm: true}, maxPositions: 32768, experts: true,
	gguf: ggufForm{name: "qwen3moe"},
})
