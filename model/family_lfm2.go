package model

import "slices"

// LFM2: most layers have a gated short convolution in place of attention.
var _ = register("lfm2", family{
	class: "Lfm2ForCausalLM", classes: classes{without: bothHeads}, kvHeadsOptional: true, tied: true, maxPositions: 128000, ropeTheta: 1e6,
	variation: variation{QKNorm: true},
	projections: projectionNames{
		qkv: usualProjections.qkv, output: []string{"self_attn.out_proj"},
		gateUp: []string{"feed_forward.w1", "feed_forward.w3"}, down: []string{"feed_forward.w2"},
	},
	norms: Norms{
		Final: "model.embedding_norm", BeforeAttention: "operator_norm", BeforeMLP: "ffn_norm",
		Q: "self_attn.q_layernorm", K: "self_attn.k_layernorm",
	},
	layerForm: layerForm{types: []string{"full_attention", "conv"}}, read: readLFM2,
	gguf: ggufForm{unknown: true},
})

func readLFM2(r *configReader) {
	c := r.c
	c.RMSNormEps = r.number("norm_eps", 1e-5)
	c.TieEmbeddings = r.flag("tie_embedding", c.TieEmbeddings)
	c.IntermediateSize = r.integer("block_ff_dim", c.IntermediateSize)
	if r.flag("block_auto_adjust_ff_dim", true) {
		c.IntermediateSize = 2 * c.IntermediateSize / 3
		_, given := r.raw["block_ffn_dim_multiplier"]
		if factor := r.number("block_ffn_dim_multiplier", 1); r.raw["block_ffn_dim_multiplier"] != nil || !given {
			multiple := r.integer("block_multiple_of", 256)
			if multiple < 1 || !(factor > 0 && factor < 1e6) {
				r.fail("block_multiple_of is %d and block_ffn_dim_multiplier %v; expected positive numbers", multiple, factor)
				return
			}
			c.IntermediateSize = (int(factor*float64(c.IntermediateSize)) + multiple - 1) / multiple * multiple
		}
	}
	if r.flag("conv_bias", false) {
		r.lacks("conv_bias")
	}
	conv := &ShortConv{Taps: r.integer("conv_L_cache", 3), Layers: r.convLayers()}
	if slices.Contains(conv.Layers, true) {
		c.ShortConv = conv
	}
}

// convLayers returns which layers have a convolution: those that layer_types says, or else all but full_attn_idxs.
func (r *configReader) convLayers() []bool {
	n := r.c.NumLayers
	if n < 1 || n > maxLayers {
		return nil
	}
	if r.layerTypes != nil {
		return layersOf(r.layerTypes, "conv")
	}
	layers := make([]bool, n)
	if attention := r.layerNumbers("full_attn_idxs"); attention != nil {
		for i := range layers {
			layers[i] = !slices.Contains(attention, i)
		}
	}
	return layers
}
