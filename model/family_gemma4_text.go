package model

var _ = register("gemma4_text", family{
	class: "Gemma4ForCausalLM", classes: classes{without: bothHeads}, kvHeadsOptional: true, tied: true, maxPositions: 131072, foreign: true,
})
