package model

var _ = register("qwen3_vl", family{
	class: "Qwen3VLForConditionalGeneration", kvHeadsOptional: true, headDim: 128, maxPositions: 128000, foreign: true,
	vision: &visionForm{text: "language_model", layers: "depth", merge: "spatial_merge_size",
		missing: Vision{Placeholder: 151655, Layers: 27, Width: 1152, MLP: 4304, Patches: 2}},
})
