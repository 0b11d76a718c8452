package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// Mixture describes layers with several MLPs, the experts: a router picks a few of them for every
// token (Shazeer et al. 2017). The details are those of transformers' Qwen3-MoE.
type Mixture struct {
	Experts   int  // of a layer
	PerToken  int  // experts that the router picks for a token
	Size      int  // inner width of one expert
	Normalise bool // the weights of a token's experts are divided by their sum

	Layers  []bool  // [NumLayers] which layers have experts; the others have one MLP
	AuxLoss float64 // coefficient of the load-balancing loss (Fedus et al. 2022) in training; 0 for none
}

// Routes returns the form of the experts that are recorded of a token. It is zero without a mixture.
func (m *Mixture) Routes() (r experience.Routes) {
	if m == nil {
		return r
	}
	for _, sparse := range m.Layers {
		if sparse {
			r.Layers++
		}
	}
	r.PerToken, r.Experts = m.PerToken, m.Experts
	return r
}

// LoadMetrics describes how routers have distributed tokens over experts, from the tokens that each
// expert of each layer with experts got: router/load_max and router/load_min are the loads of the
// busiest and the idlest expert in any layer, as multiples of an even load; router/load_entropy is
// the entropy of the shares averaged over layers, 1 for an even load. Without tokens it is empty.
func (m *Mixture) LoadMetrics(counts [][]int64) trinity.Metrics {
	largest, least, entropy, layers, n := 0.0, math.Inf(1), 0.0, 0, float64(m.Experts)
	for _, layer := range counts {
		if layer == nil {
			continue
		}
		layers++
		sum := int64(0)
		for _, c := range layer {
			sum += c
		}
		for _, c := range layer {
			share := float64(c) / float64(max(1, sum))
			if sum > 0 {
				largest, least = max(largest, share*n), min(least, share*n)
			}
			if c > 0 {
				entropy -= share * math.Log(share)
			}
		}
	}
	if largest == 0 {
		return nil
	}
	metrics := trinity.Metrics{"router/load_max": largest, "router/load_min": least}
	if n > 1 {
		metrics["router/load_entropy"] = entropy / (math.Log(n) * float64(layers))
	}
	return metrics
}

// CheckRouter returns an error if the model has no router, so that nobody can record or replay experts.
func (c *Config) CheckRouter() error {
	if c.Mixture == nil {
		return fmt.Errorf("a model of type %s has no router that this program knows, so its tokens have no experts to record or replay",
			c.Architecture)
	}
	return nil
}

// Sparse reports whether a layer has experts in place of one MLP.
func (c *Config) Sparse(layer int) bool { return c.Mixture != nil && c.Mixture.Layers[layer] }

// DenseSize returns the inner width of the MLP in layers without experts; 0 if all layers have
// experts.
func (c *Config) DenseSize() int {
	if c.Mixture != nil && !slices.Contains(c.Mixture.Layers, false) {
		return 0
	}
	return c.IntermediateSize
}

// WidestMLP returns the largest inner width of an MLP or expert.
func (c *Config) WidestMLP() int {
	if c.Mixture == nil {
		return c.IntermediateSize
	}
	return max(c.DenseSize(), c.Mixture.Size)
}

// maxExperts bounds the experts of all layers together, because Tensors lists the tensors of each.
const maxExperts = 1 << 16

func (m *Mixture) check(layers int) error {
	switch {
	case m.Experts < 1 || m.Experts*layers > maxExperts:
		return fmt.Errorf("num_experts is %d; expected 1 to %d in a model of %d layers", m.Experts, maxExperts/max(layers, 1), layers)
	case m.PerToken < 1 || m.PerToken > m.Experts:
		return fmt.Errorf("num_experts_per_tok is %d; expected 1 to num_experts %d", m.PerToken, m.Experts)
	case m.Size < 1 || m.Size > maxDimension:
		return fmt.Errorf("moe_intermediate_size is %d; expected 1 to %d", m.Size, maxDimension)
	case len(m.Layers) != layers:
		return fmt.Errorf("the list of layers with experts has %d entries; expected %d", len(m.Layers), layers)
	case !(m.AuxLoss >= 0 && m.AuxLoss <= 1e6):
		return fmt.Errorf("router_aux_loss_coef is %v; expected a number of at least 0", m.AuxLoss)
	}
	return nil
}

// mixture follows transformers: a layer has experts unless mlp_only_layers names it or its
// number, counted from 1, is not a multiple of decoder_sparse_step. The load-balancing loss applies
// only with output_router_logits.
func (r *configReader) mixture() {
	c := r.c
	m := &Mixture{
		Experts: r.numExperts(), PerToken: r.integer("num_experts_per_tok", 0), Size: r.integer("moe_intermediate_size", 0),
		Normalise: r.flag("norm_topk_prob", false),
	}
	if coefficient := r.number("router_aux_loss_coef", 0.001); r.flag("output_router_logits", false) {
		m.AuxLoss = coefficient
	}
	if r.flag("use_sliding_window", false) {
		r.lacks("use_sliding_window of a %s", c.Architecture)
	}
	step, dense := r.integer("decoder_sparse_step", 1), r.layerNumbers("mlp_only_layers")
	if step < 1 {
		r.fail("decoder_sparse_step is %d; expected a positive number", step)
	}
	if m.Experts == 0 || step < 1 || c.NumLayers < 1 || c.NumLayers > maxLayers {
		return
	}
	m.Layers = make([]bool, c.NumLayers)
	for i := range m.Layers {
		m.Layers[i] = (i+1)%step == 0 && !slices.Contains(dense, i)
	}
	if slices.Contains(m.Layers, true) {
		c.Mixture = m
	}
}

// numExperts returns the number of experts: num_experts, in newer files num_local_experts.
func (r *configReader) numExperts() int {
	for _, key := range []string{"num_experts", "num_local_experts"} {
		if r.raw[key] == nil {
			continue
		}
		n := r.integer(key, 0)
		if other := r.integer("num_local_experts", n); other != n {
			r.fail("num_experts is %d and num_local_experts %d; they must agree", n, other)
		}
		if n < 0 {
			r.fail("%s is %d; expected a positive number, or 0 for none", key, n)
			return 0
		}
		return n
	}
	r.fail("num_experts is missing")
	return 0
}

// layerList is what lists about layers have to be.
const layerList = "a list of layer numbers"

// layerNumbers reads a list of layers. transformers passes over the number of a layer that the model lacks: such a list was made
// for another model.
func (r *configReader) layerNumbers(key string) []int {
	numbers := read(&r.object, key, nil, layerList, asIntegers)
	for _, n := range numbers {
		if layers := r.c.NumLayers; layers > 0 && (n < 0 || n >= layers) {
			r.fail("%s names layer %d; expected 0 to %d (num_hidden_layers - 1)", key, n, layers-1)
			return nil
		}
	}
	return numbers
}

// json returns the keys of config.json that describe the experts.
func (m *Mixture) json() map[string]any {
	if m == nil {
		return map[string]any{"num_experts": 0}
	}
	dense := []int{}
	for i, sparse := range m.Layers {
		if !sparse {
			dense = append(dense, i)
		}
	}
	raw := map[string]any{
		"num_experts": m.Experts, "num_experts_per_tok": m.PerToken, "moe_intermediate_size": m.Size, "norm_topk_prob": m.Normalise,
		"decoder_sparse_step": 1, "mlp_only_layers": dense,
	}
	if m.AuxLoss > 0 {
		raw["router_aux_loss_coef"], raw["output_router_logits"] = decimal(m.AuxLoss), true
	}
	return raw
}

// decimal writes 1 as 1.0, because transformers refuses an integer for a float.
func decimal(v float64) json.Number {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return json.Number(text)
}

func (m *Mixture) tensors(prefix string, hidden int) []TensorSpec {
	specs := []TensorSpec{{prefix + "mlp.gate.weight", []int{m.Experts, hidden}}}
	for e := range m.Experts {
		expert := fmt.Sprintf("%smlp.experts.%d.", prefix, e)
		specs = append(specs, TensorSpec{expert + "gate_proj.weight", []int{m.Size, hidden}},
			TensorSpec{expert + "up_proj.weight", []int{m.Size, hidden}}, TensorSpec{expert + "down_proj.weight", []int{hidden, m.Size}})
	}
	return specs
}

// ActiveParameters counts the parameters that compute one token: all but those of the experts that
// the router does not pick.
func (c *Config) ActiveParameters() int64 {
	n := c.Parameters()
	if m := c.Mixture; m != nil {
		idle := 3 * int64(m.Experts-m.PerToken) * int64(m.Size) * int64(c.HiddenSize)
		for _, sparse := range m.Layers {
			if sparse {
				n -= idle
			}
		}
	}
	return n
}

// splitExperts replaces fused tensors, which hold a matrix of every expert of a layer [experts,
// out, in], by one tensor per expert. transformers can write either form.
func splitExperts(cfg *Config, stored map[string]safetensors.Tensor, tensors map[string]Tensor) error {
	if cfg.Mixture == nil {
		return nil
	}
	m, h := cfg.Mixture, cfg.HiddenSize
	var errs []error
	split := func(name string, parts []string, out, in int) {
		fused, ok := stored[name]
		if !ok {
			return
		}
		if !slices.Equal(fused.Shape, []int{m.Experts, len(parts) * out, in}) {
			errs = append(errs, fmt.Errorf("tensor %s has shape %v; the config demands %v",
				name, fused.Shape, []int{m.Experts, len(parts) * out, in}))
			return
		}
		delete(tensors, name)
		fused.Shape = []int{m.Experts * len(parts) * out, in}
		flat := fromSafetensors(fused)
		for e := range m.Experts {
			for i, part := range parts {
				t := flat.slice((e*len(parts)+i)*out, out)
				t.Name = fmt.Sprintf("%s.%d.%s.weight", name[:strings.LastIndex(name, ".")], e, part)
				if _, twice := tensors[t.Name]; twice {
					errs = append(errs, fmt.Errorf("tensor %s is also a part of %s", t.Name, name))
				}
				tensors[t.Name] = t
			}
		}
	}
	for i, sparse := range m.Layers {
		if sparse {
			experts := fmt.Sprintf("model.layers.%d.mlp.experts.", i)
			split(experts+"gate_up_proj", []string{"gate_proj", "up_proj"}, m.Size, h)
			split(experts+"down_proj", []string{"down_proj"}, h, m.Size)
		}
	}
	return together(errs)
}

// slice returns rows [from, from+rows) of a matrix as a tensor.
func (t Tensor) slice(from, rows int) Tensor {
	whole := t
	t.Shape = []int{rows, whole.RowLen()}
	t.read = func(dst []float32, a, b int) error { return whole.read(dst, from+a, from+b) }
	return t
}
