package model

var _ = register("qwen2_vl", family{
	class: "Qwen2VLForConditionalGeneration", kvHeadsOptional: true, maxPositions: 32768, foreign: true,
})
