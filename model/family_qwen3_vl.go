package model

var _ = register("qwen3_vl", family{
	class: "Qwen3VLForConditionalGeneration", kvHeadsOptional: true, maxPositions: 32768, foreign: true,
})
