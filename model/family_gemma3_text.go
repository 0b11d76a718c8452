package model

import "math"

var _ = register("gemma3_text", family{
	class: "Gemma3ForCausalLM", classes: classes{"Gemma3Text", []Head{TokenClassification}},
	hasAttentionBias: true, headDim: 256, maxPositions: 131072, tied: true,
	layerForm: layerForm{slidingWindow: 4096, slidingPattern: 6}, ropeTheta: 1e6, rotation: rotation{local: gemmaLocalTheta},
	variation: variation{QKNorm: true, PostNorms: true, NormOffset: 1, GELU: true},
	read:      readGemma, write: writeGemma,
	gguf: ggufForm{name: "gemma3", pattern: 6, read: gemmaFromGGUF, refuses: gemmaNotInGGUF},
})

// Gemma 3 of 4B and more reads images, too. Its files leave out sizes that are the default.
var _ = wraps("gemma3", composite{texts: []string{"gemma3_text"}, missing: map[string]int{
	"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
	"num_key_value_heads": 4,
}})

const gemmaLocalTheta = 10000

func readGemma(r *configReader) {
	c := r.c
	c.EmbeddingScale = math.Sqrt(float64(c.HiddenSize))
	c.AttentionScale = 1 / math.Sqrt(r.factor("query_pre_attn_scalar", 256))
	for _, key := range []string{"attn_logit_softcapping", "final_logit_softcapping"} {
		if r.raw[key] != nil {
			r.lacks("%s %v", key, r.raw[key])
		}
	}
	if r.flag("use_bidirectional_attention", false) {
		r.lacks("use_bidirectional_attention")
	}
}

func writeGemma(c *Config, raw map[string]any) {
	delete(raw, "hidden_act")
	raw["hidden_activation"] = "gelu_pytorch_tanh"
	raw["query_pre_attn_scalar"] = int(math.Round(1 / (c.AttentionScale * c.AttentionScale)))
	raw["rope_local_base_freq"] = c.LocalRopeTheta
}

func gemmaFromGGUF(c *Config) {
	c.EmbeddingScale = math.Sqrt(float64(c.HiddenSize))
	c.AttentionScale = 1 / math.Sqrt(float64(c.HeadDim))
	c.LocalRopeTheta = gemmaLocalTheta
}

// gemmaNotInGGUF returns what llama.cpp computes otherwise. It takes the scale of 27B's scores from the number of layers.
func gemmaNotInGGUF(c *Config) string {
	const layers27B = 62
	switch {
	case c.NumLayers == layers27B:
		return "62 layers"
	case c.LocalRopeTheta != gemmaLocalTheta:
		return "a rope_local_base_freq other than 10000"
	case math.Abs(c.AttentionScale*math.Sqrt(float64(c.HeadDim))-1) > 1e-6:
		return "a query_pre_attn_scalar other than head_dim"
	case c.RopeScaling != nil && c.RopeScaling.Type != "linear":
		return "a rope_scaling other than linear"
	}
	return ""
}
