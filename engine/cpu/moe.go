package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/experts"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile"
)

// mixture is the experts of a layer, in place of its MLP.
type mixture struct {
	router linear   // [experts, H]
	gateUp []linear // [2·Size, H] of every expert
	down   []linear // [H, Size]
}

// mixtureActivations are what the backward pass needs of a layer's experts, one row per pair of a token and an expert of its.
type mixtureActivations struct {
	routing *experts.Routing
	gateUp  kernel.Matrix // [pairs, 2·Size]; its gradient in the backward pass
}

// mixtureSpace is scratch of the layers with experts.
type mixtureSpace struct {
	in      kernel.Matrix // [pairs, H] inputs of the experts, backward too
	out     kernel.Matrix // [pairs, H] their results; the gradient by them, then by in, in the backward pass
	hidden  kernel.Matrix // [pairs, Size]
	dHidden kernel.Matrix // [pairs, Size]
	dLogits kernel.Matrix // [rows, experts]
}

func viewMixture(cfg *modelfile.Config, base *layout, flat []float32, prefix string) *mixture {
	view := func(modules ...string) linear {
		for i, module := range modules {
			modules[i] = prefix + "mlp." + module + ".weight"
		}
		return linear{weight: base.block(flat, modules...)}
	}
	m := &mixture{router: view("gate")}
	for i := range cfg.Mixture.Experts {
		expert := fmt.Sprintf("experts.%d.", i)
		m.gateUp = append(m.gateUp, view(expert+"gate_proj", expert+"up_proj"))
		m.down = append(m.down, view(expert+"down_proj"))
	}
	return m
}

// mixtureGroups are the tensors of a layer's experts that stand beside one another, below "model.layers.N.".
func mixtureGroups(cfg *modelfile.Config) [][]string {
	groups := [][]string{{"mlp.gate.weight"}}
	for i := range cfg.Mixture.Experts {
		expert := fmt.Sprintf("mlp.experts.%d.", i)
		groups = append(groups, []string{expert + "gate_proj.weight", expert + "up_proj.weight"}, []string{expert + "down_proj.weight"})
	}
	return groups
}

// takeMixture takes the memory of one layer's experts for so many rows.
func takeMixture(cfg *modelfile.Config, rows int, t *kernel.Taker) *mixtureActivations {
	m := cfg.Mixture
	shape := experts.Shape{Experts: m.Experts, PerToken: m.PerToken, Normalise: m.Normalise}
	return &mixtureActivations{routing: experts.New(t, shape, rows), gateUp: t.Matrix(rows*m.PerToken, 2*m.Size)}
}

func takeMixtureSpace(cfg *modelfile.Config, rows int, train bool, t *kernel.Taker) mixtureSpace {
	m, pairs := cfg.Mixture, rows*cfg.Mixture.PerToken
	s := mixtureSpace{in: t.Matrix(pairs, cfg.HiddenSize), out: t.Matrix(pairs, cfg.HiddenSize), hidden: t.Matrix(pairs, m.Size)}
	if train {
		s.dHidden, s.dLogits = t.Matrix(pairs, m.Size), t.Matrix(rows, m.Experts)
	}
	return s
}

// activateExperts computes the activations of a layer's experts from the normed inputs [rows, H].
func (e *Engine) activateExperts(x *mixture, a *mixtureActivations, normed kernel.Matrix) {
	r := a.routing
	e.apply(&x.router, r.Logits(normed.Rows), normed, false)
	r.Route(e.pool)
	in := e.work.experts.in
	r.Gather(e.pool, in, normed)
	r.Each(e.pool, func(i, from, to int) {
		e.apply(&x.gateUp[i], a.gateUp.RowRange(from, to), in.RowRange(from, to), false)
	})
}

// applyExperts adds the experts' results, weighted, to out [rows, H].
func (e *Engine) applyExperts(x *mixture, a *mixtureActivations, out kernel.Matrix) {
	r, pairs, size := a.routing, a.routing.Pairs(), e.cfg.Mixture.Size
	gateUp, hidden, results := a.gateUp.RowRange(0, pairs), e.work.experts.hidden.RowRange(0, pairs), e.work.experts.out
	kernel.SwiGLU(e.pool, hidden, gateUp.ColRange(0, size), gateUp.ColRange(size, 2*size))
	r.Each(e.pool, func(i, from, to int) {
		e.apply(&x.down[i], results.RowRange(from, to), hidden.RowRange(from, to), false)
	})
	r.Combine(e.pool, out, results)
}

// backExperts writes the gradient by the normed inputs to dNormed [rows, H], given that by the layer's output, dy [rows, H].
func (e *Engine) backExperts(x, grad *mixture, a *mixtureActivations, dNormed, dy, normed kernel.Matrix, balance func(row int) []float32) {
	r, w, pairs, size := a.routing, &e.work.experts, a.routing.Pairs(), e.cfg.Mixture.Size
	gateUp, hidden, dHidden := a.gateUp.RowRange(0, pairs), w.hidden.RowRange(0, pairs), w.dHidden.RowRange(0, pairs)
	gate, up := gateUp.ColRange(0, size), gateUp.ColRange(size, 2*size)
	in, dOut := w.in.RowRange(0, pairs), w.out.RowRange(0, pairs)

	r.Gather(e.pool, dOut, dy)
	kernel.SwiGLU(e.pool, hidden, gate, up)
	r.Each(e.pool, func(i, from, to int) {
		kernel.MatMul(e.pool, dHidden.RowRange(from, to), dOut.RowRange(from, to), x.down[i].weight, false)
	})
	r.WeighBackward(e.pool, dHidden, hidden)
	r.Each(e.pool, func(i, from, to int) {
		if d := grad.down[i].weight; d.Rows > 0 {
			kernel.MatMul(e.pool, d, dOut.RowRange(from, to).T(), hidden.RowRange(from, to), true)
		}
	})
	kernel.SwiGLUBackward(e.pool, gate, up, dHidden, gate, up)
	r.Gather(e.pool, in, normed)
	dIn := dOut // which has served
	r.Each(e.pool, func(i, from, to int) {
		e.backApply(&x.gateUp[i], &grad.gateUp[i], dIn.RowRange(from, to), gateUp.RowRange(from, to), in.RowRange(from, to))
	})
	dLogits := w.dLogits.RowRange(0, normed.Rows)
	r.Backward(e.pool, dLogits, balance)
	e.backApply(&x.router, &grad.router, dNormed, dLogits, normed)
	r.AddUp(e.pool, dNormed, dIn)
}
