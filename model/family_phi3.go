package model

// Phi-3 and Phi-4-mini: q, k and v are one matrix, as are gate and up; RoPE may rotate a part of each
// head.
var _ = register("phi3", family{
	class: "Phi3ForCausalLM", kvHeadsOptional: true, layerForm: layerForm{slidingEverywhere: true}, maxPositions: 4096, normEps: 1e-5,
	rotation: rotation{partial: true, long: true},
	projections: projectionNames{
		qkv: []string{"self_attn.qkv_proj"}, output: []string{"self_attn.o_proj"},
		gateUp: []string{"mlp.gate_up_proj"}, down: []string{"mlp.down_proj"},
	},
	gguf: ggufForm{
		longFactors: true, window: true,
		tensors: map[string]string{"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"},
	},
})
