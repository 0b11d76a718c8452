package model

var _ = register("qwen2_5_vl", family{
	class: "Qwen2_5_VLForConditionalGeneration", kvHeadsOptional: true, maxPositions: 32768, foreign: true,
})
