package model

// variation is what some families compute otherwise than Llama, whose variation is the zero value.
type variation struct {
	QKNorm     bool    // RMSNorm over each head of q and k, before RoPE
	WideQKNorm bool    // with QKNorm: one RMSNorm over all heads of q, and one over all heads of k
	PostNorms  bool    // RMSNorm of what the attention and the MLP give, before the residual stream gets it
	NoPreNorms bool    // attention and MLP read the residual stream as it is
	NormOffset float32 // norms multiply by NormOffset + weight
	GELU       bool    // the MLP's gate is GELU, by its tanh approximation

	EmbeddingScale float64 // multiplies the embeddings of tokens, but not a tied head; 0 for none
	AttentionScale float64 // of the scores; 0 means 1/√HeadDim
	ResidualScale  float64 // multiplies what the attention and the MLP give, before the residual stream gets it; 0 for none
	LogitScale     float64 // divides the logits; 0 for none
	LocalRopeTheta float64 // base of RoPE in SlidingLayers, where it has no scaling; 0: they rotate as all layers do

	ShortConv *ShortConv // layers with a convolution in place of attention; nil if there are none
}

// Factors of a model that multiply or divide hidden states, scores or logits are far within these bounds. Smaller and larger ones
// make numbers of float32 vanish or overflow.
const smallestFactor, largestFactor = 1e-6, 1e6

// check checks a variation, which belongs to c.
func (v *variation) check(c *Config, d *demands) {
	d.add(v.EmbeddingScale >= 0 && v.EmbeddingScale < 1e9,
		"the embeddings' factor is %v; expected a positive number", v.EmbeddingScale)
	d.add(v.AttentionScale >= 0 && v.AttentionScale < 1e9,
		"the factor of attention scores is %v; expected a positive number", v.AttentionScale)
	d.add(v.ResidualScale >= 0 && v.ResidualScale < 1e9,
		"the factor of residual branches is %v; expected a positive number", v.ResidualScale)
	d.add(v.LogitScale >= 0 && v.LogitScale < 1e9, "the divisor of logits is %v; expected a positive number", v.LogitScale)
	d.add(v.LocalRopeTheta == 0 || v.LocalRopeTheta > 1 && v.LocalRopeTheta < 1e30,
		"the rope_theta of sliding layers is %v; expected a number above 1", v.LocalRopeTheta)
	d.add(v.LocalRopeTheta == 0 || c.RopeScaling == nil || c.RopeScaling.Type != "dynamic",
		"rope_scaling dynamic is not computed beside layers that rotate in another way")
	if v.ShortConv != nil {
		v.ShortConv.check(c.NumLayers, d)
		d.add(!v.PostNorms && !v.NoPreNorms, "convolutions are computed behind a norm and without one after them")
	}
	d.add(c.Mixture == nil || !v.GELU && !v.NoPreNorms, "experts are computed with a SiLU and a norm before them")
}

// Norms are the modules of a model's norms; "" for none.
type Norms struct {
	Final string // of the last hidden states

	// In a layer, below "model.layers.N.": those of the residual stream, of what the attention and the MLP give, and of q and k.
	BeforeAttention, AfterAttention, BeforeMLP, AfterMLP, Q, K string
}

// usualNorms are the names of a family's norms, unless it has others. A model need not have each.
var usualNorms = Norms{
	Final: "model.norm", BeforeAttention: "input_layernorm", BeforeMLP: "post_attention_layernorm",
	Q: "self_attn.q_norm", K: "self_attn.k_norm",
}

// Norms returns the names of the model's norms.
func (c *Config) Norms() Norms {
	n := usualNorms
	if f := families[c.Architecture]; f != nil && f.norms.Final != "" {
		n = f.norms
	}
	if c.PostNorms {
		n.AfterAttention, n.BeforeMLP, n.AfterMLP = "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"
	}
	if c.NoPreNorms {
		n.BeforeAttention, n.BeforeMLP = "", ""
	}
	if !c.QKNorm {
		n.Q, n.K = "", ""
	}
	return n
}

// LocalRope returns a config with the frequencies of the layers with a sliding window; nil if they rotate as all layers do.
func (c *Config) LocalRope() *Config {
	if c.LocalRopeTheta == 0 {
		return nil
	}
	local := *c
	local.RopeTheta, local.RopeScaling = c.LocalRopeTheta, nil
	return &local
}
