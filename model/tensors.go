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
	specs = append(specs, TensorSpec{c.Norms().Final + ".weight", []int{c.HiddenSize}})
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
	norms := c.Norms()
	norm(norms.BeforeAttention)
	for _, l := range c.linears(layer) {
		specs = append(specs, TensorSpec{prefix + l.name + ".weight", []int{l.out, l.in}})
		if l.bias {
			vector(l.name+".bias", l.out)
		}
		if l.name != c.Projections(layer).Output.Names[0] {
			continue
		}
		switch {
		case c.Convolves(layer):
			specs = append(specs, TensorSpec{prefix + convName, []int{c.HiddenSize, 1, c.ShortConv.Taps}})
		case c.QKNorm:
			q, k := c.HeadDim, c.HeadDim
			if c.WideQKNorm {
				q, k = q*c.NumHeads, k*c.NumKVHeads
			}
			vector(norms.Q+".weight", q)
			vector(norms.K+".weight", k)
		}
		norm(norms.AfterAttention)
		norm(norms.BeforeMLP)
	}
	norm(norms.AfterMLP)
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

// linears returns the linear maps of a layer, or those of its attention if the layer has experts.
func (c *Config) linears(layer int) (maps []linear) {
	p := c.Projections(layer)
	add := func(from Projection, bias bool) {
		for i, name := range from.Names {
			maps = append(maps, linear{name, from.Outs[i], from.In, bias})
		}
	}
	add(p.QKV, c.AttentionBias)
	add(p.Output, c.AttentionOutputBias)
	if !c.Sparse(layer) {
		add(p.GateUp, c.MLPBias)
		add(p.Down, c.MLPBias)
	}
	return maps
}

// Projections are the linear maps of a layer outside its experts. In a layer with a short convolution, QKV makes what that reads,
// and Output reads what it gives.
type Projections struct{ QKV, Output, GateUp, Down Projection }

// Projection is one or more linear maps with the same input, whose outputs are neighbours.
type Projection struct {
	Names []string // of the modules, below "model.layers.N."
	Outs  []int    // outputs of each
	Out   int      // of all of them
	In    int
}

// projectionNames name the modules of Projections. A name in place of several means that the
// family's files hold these matrices as one.
type projectionNames struct{ qkv, output, gateUp, down []string }

var usualProjections = projectionNames{
	qkv:    []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
	output: []string{"self_attn.o_proj"},
	gateUp: []string{"mlp.gate_proj", "mlp.up_proj"},
	down:   []string{"mlp.down_proj"},
}

// Projections returns the linear maps of a layer outside its experts.
func (c *Config) Projections(layer int) Projections {
	names := usualProjections
	if f := families[c.Architecture]; f != nil && f.projections.qkv != nil {
		names = f.projections
	}
	project := func(names []string, in int, outs ...int) Projection {
		sum := 0
		for _, n := range outs {
			sum += n
		}
		if len(names) < len(outs) {
			outs = []int{sum}
		}
		return Projection{names, outs, sum, in}
	}
	q, kv := c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	p := Projections{
		QKV: project(names.qkv, c.HiddenSize, q, kv, kv), Output: project(names.output, q, c.HiddenSize),
		GateUp: project(names.gateUp, c.HiddenSize, c.IntermediateSize, c.IntermediateSize),
		Down:   project(names.down, c.IntermediateSize, c.HiddenSize),
	}
	if c.Convolves(layer) {
		p.QKV = project(convProjections.qkv, c.HiddenSize, 3*c.HiddenSize)
		p.Output = project(convProjections.output, c.HiddenSize, c.HiddenSize)
	}
	return p
}

// adaptable returns the linear maps that adapters cover. In a model with experts these are the maps
// of the attention, because PEFT applies the names of the others to experts, even in a layer with
// one MLP.
func (c *Config) adaptable(layer int) []linear {
	if c.Foreign != nil {
		return c.Foreign.linears(layer)
	}
	maps := c.linears(layer)
	if p := c.Projections(layer); c.Mixture != nil {
		return maps[:len(p.QKV.Names)+len(p.Output.Names)]
	}
	return maps
}

// Parameters counts the numbers in Tensors. A tied head counts once.
func (c *Config) Parameters() int64 {
	var n int64
	for _, t := range c.Tensors() {
		n += int64(product(t.Shape))
	}
	if f := c.Foreign; f != nil && f.Tensors == nil && f.Vision != nil {
		n += f.Vision.Parameters
	}
	return n
}
