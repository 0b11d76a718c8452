package model

import "slices"

// The embedded engine computes the models of Granite 4 whose layers are all attention, without experts.
var _ = register("granitemoehybrid", family{
	class: "GraniteMoeHybridForCausalLM", classes: classes{without: bothHeads},
	kvHeadsOptional: true, hasAttentionBias: true, maxPositions: 2048,
	projections: projectionNames{
		qkv: usualProjections.qkv, output: usualProjections.output,
		gateUp: []string{"shared_mlp.input_linear"}, down: []string{"shared_mlp.output_linear"},
	},
	layerForm: layerForm{types: []string{"attention", "full_attention", "mamba", "linear_attention"}}, read: readGraniteHybrid,
	gguf: ggufForm{lacks: "gate and up in one matrix"},
})

func readGraniteHybrid(r *configReader) {
	readGranite(r)
	c := r.c
	c.IntermediateSize = r.integer("shared_intermediate_size", 1024)
	switch n := r.integer("num_local_experts", 8); {
	case n < 0:
		r.fail("num_local_experts is %d; expected a positive number, or 0 for none", n)
	case n > 0:
		r.lacks("num_local_experts %d", n)
	}
	if r.layerTypes == nil {
		r.lacks("layers that are not all attention (layer_types)")
		return
	}
	for _, kind := range r.layerTypes {
		if kind != "attention" && kind != "full_attention" {
			r.lacks("layers of type %v", kind)
			return
		}
	}
	if r.text("position_embedding_type", "") != "rope" && c.NumLayers > 0 && c.NumLayers <= maxLayers {
		c.NoRope = slices.Repeat([]bool{true}, c.NumLayers)
	}
}
