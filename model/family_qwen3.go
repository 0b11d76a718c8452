package model

var _ = register("qwen3", family{
	class: "Qwen3ForCausalLM", hasAttentionBias: true, qkNorm: true, headDim: 128, slidingWindow: 4096, maxPositions: 32768,
})
