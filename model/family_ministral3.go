package model

// Ministral 3: Mistral with YaRN, whose queries grow with the position beyond the original context.
var _ = register("ministral3", family{
	class: "Ministral3ForCausalLM", headDim: 128, layerForm: layerForm{slidingEverywhere: true}, maxPositions: 262144, normEps: 1e-5,
	rotation: rotation{queries: true},
	gguf:     ggufForm{name: "mistral3", interleaved: true, queryScale: true},
})
