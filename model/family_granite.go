package model

var _ = register("granite", family{
	class: "GraniteForCausalLM", classes: classes{without: bothHeads},
	kvHeadsOptional: true, hasAttentionBias: true, hasMLPBias: true, maxPositions: 2048,
	read: readGranite, write: writeGranite,
	gguf: ggufForm{interleaved: true, biases: true, squareHeads: true, factors: true},
})

// factor is a number of a variation, with its keys.
type factor struct {
	key   string // in config.json
	gguf  string
	value *float64
}

// factors are those of a Granite model.
func (v *variation) factors() []factor {
	return []factor{
		{"embedding_multiplier", "embedding_scale", &v.EmbeddingScale}, {"attention_multiplier", "attention.scale", &v.AttentionScale},
		{"residual_multiplier", "residual_scale", &v.ResidualScale}, {"logits_scaling", "logit_scale", &v.LogitScale},
	}
}

func readGranite(r *configReader) {
	for _, f := range r.c.factors() {
		*f.value = r.factor(f.key, 1)
	}
}

func writeGranite(c *Config, raw map[string]any) {
	for _, f := range c.factors() {
		raw[f.key] = *f.value
	}
}
