package model

var _ = register("qwen3_5_text", family{
	class: "Qwen3_5ForCausalLM", classes: classes{"Qwen3_5Text", []Head{TokenClassification}}, kvHeadsOptional: true,
	maxPositions: 32768, foreign: true, layerForm: layerForm{types: []string{"full_attention", "linear_attention"}},
})

var _ = wraps("qwen3_5", composite{texts: []string{"qwen3_5_text"}})
