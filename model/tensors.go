package model

import (
	"fmt"
	"slices"
)

const (
	embeddingName = "model.embed_tokens.weight"
	finalNormName = "model.norm.weight"
	headName      = "lm_head.weight"
	scoreName     = "score.weight"
	scoreBiasName = "score.bias"
)

// TensorSpec is the name and shape of a tensor that a model must have.
type TensorSpec struct {
	Name  string
	Shape []int // [out, in] or [n]
}

// Tensors lists all tensors of the model in the order of a forward pass: embedding, layers, final
// norm, and the head if it is not tied to the embedding. Those of a foreign model are the tensors of
// its files; if they are not here, its sizes give an estimate.
func (c *Config) Tensors() []TensorSpec {
	if c.Foreign != nil && c.Foreign.Tensors != nil {
		return append(slices.Clip(c.Foreign.Tensors), c.headTensors()...)
	}
	specs := []TensorSpec{{embeddingName, []int{c.VocabSize, c.HiddenSize}}}
	for layer := range c.NumLayers {
		specs = append(specs, c.layerTensors(layer)...)
	}
	specs = append(specs, TensorSpec{finalNormName, []int{c.HiddenSize}})
	return append(specs, c.headTensors()...)
}

func (c *Config) layerTensors(layer int) []TensorSpec {
	var specs []TensorSpec
	prefix := fmt.Sprintf("model.layers.%d.", layer)
	vector := func(name string, n int) {
		specs = append(specs, TensorSpec{prefix + name, []int{n}})
	}
	norm := func(name string) {
		if name != "" {
			vector(name+".weight", c.HiddenSize)
		}
	}
	beforeAttention, afterAttention, beforeMLP, afterMLP := c.LayerNorms()
	norm(beforeAttention)
	for _, l := range c.linears(layer) {
		specs = append(specs, TensorSpec{prefix + l.name + ".weight", []int{l.out, l.in}})
		if l.bias {
			vector(l.name+".bias", l.out)
		}
		if l.name == "self_attn.o_proj" && c.QKNorm {
			q, k := c.HeadDim, c.HeadDim
			if c.WideQKNorm {
				q, k = q*c.NumHeads, k*c.NumKVHeads
			}
			vector("self_attn.q_norm.weight", q)
			vector("self_attn.k_norm.weight", k)
		}
		if l.name == "self_attn.o_proj" {
			norm(afterAttention)
			norm(beforeMLP)
		}
	}
	norm(afterMLP)
	if c.Sparse(layer) {
		specs = append(specs, c.Mixture.tensors(prefix, c.HiddenSize)...)
	}
	return specs
}

// linear is a linear map of a layer outside its experts.
type linear struct {
	name    string // below "model.layers.N."
	out, in int
	bias    bool
}

// linears returns the seven linear maps of a layer, or the four of its attention if the layer has
// experts.
func (c *Config) linears(layer int) []linear {
	q, kv := c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	maps := []linear{
		{"self_attn.q_proj", q, c.HiddenSize, c.AttentionBias},
		{"self_attn.k_proj", kv, c.HiddenSize, c.AttentionBias},
		{"self_attn.v_proj", kv, c.HiddenSize, c.AttentionBias},
		{"self_attn.o_proj", c.HiddenSize, q, c.AttentionOutputBias},
	}
	if c.Sparse(layer) {
		return maps
	}
	return append(maps, []linear{
		{"mlp.gate_proj", c.IntermediateSize, c.HiddenSize, c.MLPBias},
		{"mlp.up_proj", c.IntermediateSize, c.HiddenSize, c.MLPBias},
		{"mlp.down_proj", c.HiddenSize, c.IntermediateSize, c.MLPBias},
	}...)
}

// adaptable returns the linear maps that adapters cover. In a model with experts these are the maps
// of the attention, because PEFT applies the names of the others to experts, even in a layer with
// one MLP.
func (c *Config) adaptable(layer int) []linear {
	if c.Foreign != nil {
		return c.Foreign.linears(layer)
	}
	if c.Mixture != nil {
		return c.linears(layer)[:4]
	}
	return c.linears(layer)
}

// Parameters counts the numbers in Tensors. A tied head counts once.
func (c *Config) Parameters() int64 {
	var n int64
	for _, t := range c.Tensors() {
		n += int64(product(t.Shape))
	}
	return n
}
