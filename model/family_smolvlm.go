package model

var _ = register("smolvlm", family{
	class: "SmolVLMForConditionalGeneration", kvHeadsOptional: true, maxPositions: 32768, foreign: true,
})
