package model

var _ = register("qwen3", family{
	class: "Qwen3ForCausalLM", hasAttentionBias: true,
	variation: variation{QKNorm: true}, headDim: 128, layerForm: layerForm{slidingWindow: 4096}, maxPositions: 32768,
})
