package model

var _ = register("qwen2_5_vl", family{
	class: "Qwen2_5_VLForConditionalGeneration", kvHeadsOptional: true, maxPositions: 32768, foreign: true,
	vision: &visionForm{text: "language_model", layers: "depth", merge: "spatial_merge_size",
		missing: Vision{Placeholder: 151655, Layers: 32, Width: 3584, MLP: 3420, Patches: 2}},
})
