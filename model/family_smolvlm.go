package model

var _ = register("smolvlm", family{
	class: "SmolVLMForConditionalGeneration", kvHeadsOptional: true, maxPositions: 8192, foreign: true,
	vision: &visionForm{text: "text_model", layers: "num_hidden_layers", merge: "scale_factor", mergeAbove: true,
		missing: Vision{Placeholder: 128257, Layers: 12, Width: 1152, MLP: 3072, Patches: 2}},
})
