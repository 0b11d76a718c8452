package model

var _ = register("lfm3", family{
	class: "Lfm3ForCausalLM", classes: classes{without: bothHeads}, kvHeadsOptional: true, tied: true, maxPositions: 128000, foreign: true,
	layerForm: layerForm{types: []string{"full_attention", "sliding_attention", "conv"}},
})
