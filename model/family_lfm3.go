package model

var _ = register("lfm3", family{
	class: "Lfm3ForCausalLM", headless: bothHeads, kvHeadsOptional: true, tied: true, maxPositions: 128000, foreign: true,
})
