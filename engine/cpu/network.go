package cpu

import (
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// network views flat vectors as the parts of a transformer. The vectors hold its weights or their
// gradient. In a gradient, a part without data belongs to a frozen weight.
type network struct {
	embedding kernel.Matrix // [V, H]
	head      linear        // [V, H]; its weight is the embedding if tied; empty if there is a score
	score     linear        // [labels, H] of a value head or reward model; otherwise empty
	norm      []float32     // [H]
	layers    []layer
}

// layer is one transformer block.
type layer struct {
	attentionNorm []float32 // [H]; this and the next norms are nil unless the model has them
	qNorm, kNorm  []float32 // [HeadDim], or that of all heads
	qkv           linear    // [q+k+v, H]; in a layer with a convolution, [B+C+x, H]
	conv          []float32 // [H, 1, taps] of a convolution in place of attention; nil in a layer without
	output        linear    // [H, q]; in a layer with a convolution, [H, H]
	outputNorm    []float32 // [H] of what the attention gives
	mlpNorm       []float32 // [H]
	downNorm      []float32 // [H] of what the MLP gives
	gateUp        linear    // [2I, H]; empty in a layer with experts, and so is down
	down          linear    // [H, I]
	experts       *mixture  // nil in a layer without experts
}

// viewModel views base weights (or their gradient) and, if adapters is not nil, LoRA weights (or
// their gradient). Either flat vector may be nil.
func viewModel(cfg *model.Config, base view, adapters *adapterLayout, adapterFlat []float32) *network {
	m := &network{embedding: base.matrix(embeddingName), norm: base.vector(cfg.Norms().Final + ".weight")}
	switch {
	case cfg.Head != model.CausalLM && adapters != nil && adapters.has(scoreName):
		m.score = viewScore(view{&adapters.layout, adapterFlat, true})
	case cfg.Head != model.CausalLM:
		m.score = viewScore(base)
	case cfg.TieEmbeddings:
		m.head.weight = m.embedding
	default:
		m.head.weight = base.matrix(headName)
	}
	if adapters != nil {
		adapters.viewWhole(&m.head, adapterFlat, model.OutputHead)
	}
	norms := cfg.Norms()
	for i := range cfg.NumLayers {
		prefix, p := layerPrefix(i), cfg.Projections(i)
		view := func(from model.Projection) linear {
			modules := from.Names
			weights, biases := make([]string, len(modules)), make([]string, len(modules))
			for j, module := range modules {
				weights[j], biases[j] = prefix+module+".weight", prefix+module+".bias"
			}
			l := linear{weight: base.matrix(weights...), bias: base.biases(biases...)}
			if adapters != nil {
				adapters.view(&l, base.layout, adapterFlat, prefix, modules)
			}
			return l
		}
		l := layer{
			attentionNorm: base.vector(prefix + norms.BeforeAttention + ".weight"),
			qNorm:         base.vector(prefix + norms.Q + ".weight"),
			kNorm:         base.vector(prefix + norms.K + ".weight"),
			qkv:           view(p.QKV),
			conv:          base.vector(prefix + convName),
			output:        view(p.Output),
			outputNorm:    base.vector(prefix + norms.AfterAttention + ".weight"),
			mlpNorm:       base.vector(prefix + norms.BeforeMLP + ".weight"),
			downNorm:      base.vector(prefix + norms.AfterMLP + ".weight"),
		}
		if cfg.Sparse(i) {
			l.experts = viewMixture(cfg, base, adapters, adapterFlat, prefix)
		} else {
			l.gateUp, l.down = view(p.GateUp), view(p.Down)
		}
		m.layers = append(m.layers, l)
	}
	return m
}

func viewScore(v view) linear {
	return linear{weight: v.matrix(scoreName), bias: v.vector(scoreBiasName)}
}
