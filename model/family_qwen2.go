package model

var _ = register("qwen2", family{
	class: "Qwen2ForCausalLM", attentionBias: true, layerForm: layerForm{slidingWindow: 4096}, maxPositions: 32768,
	gguf: ggufForm{squareHeads: true},
})
