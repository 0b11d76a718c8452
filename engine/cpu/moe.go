package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/internal/experts"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// mixture holds a layer's router and its experts, which replace the MLP.
type mixture struct {
	router linear   // [experts, H]
	gateUp []linear // [2·Size, H] for every expert
	down   []linear // [H, Size] for every expert
}

// mixtureActivations are the values of a layer's experts that the backward pass needs. A pair is
// one token at one of its experts.
type mixtureActivations struct {
	routing *experts.Routing
	gateUp  kernel.Matrix // [pairs, 2·Size]; its gradient in the backward pass
}

// mixtureSpace is scratch for the layers with experts.
type mixtureSpace struct {
	in      kernel.Matrix // [pairs, H] inputs of the experts, in both passes
	out     kernel.Matrix // [pairs, H] results; in the backward pass their gradient, then the gradient of in
	hidden  kernel.Matrix // [pairs, Size]
	dHidden kernel.Matrix // [pairs, Size]
	dLogits kernel.Matrix // [rows, experts]
}

// viewMixture views the experts of the layer whose tensors' names begin with prefix, with their adapters unless that is nil.
func viewMixture(cfg *model.Config, base view, adapters *adapterLayout, flat []float32, prefix string) *mixture {
	view := func(modules ...string) linear {
		for i, module := range modules {
			modules[i] = prefix + "mlp." + module + ".weight"
		}
		return linear{weight: base.matrix(modules...)}
	}
	m := &mixture{router: view("gate")}
	for i := range cfg.Mixture.Experts {
		expert := fmt.Sprintf("experts.%d.", i)
		gateUp, down := view(expert+"gate_proj", expert+"up_proj"), view(expert+"down_proj")
		if adapters != nil {
			modules := expertModules(i)
			adapters.viewWhole(&gateUp, flat, prefix+modules[0])
			adapters.viewWhole(&down, flat, prefix+modules[1])
		}
		m.gateUp, m.down = append(m.gateUp, gateUp), append(m.down, down)
	}
	return m
}

// expertModules returns the modules of an expert that adapters cover, below "model.layers.N.". gate and up have one adapter.
func expertModules(i int) [2]string {
	expert := fmt.Sprintf("mlp.experts.%d.", i)
	return [...]string{expert + "gate_up_proj", expert + "down_proj"}
}

// mixtureGroups returns the tensors of a layer's experts, below "model.layers.N.". The tensors of
// one group are neighbours in the flat vector.
func mixtureGroups(cfg *model.Config) [][]string {
	groups := [][]string{{"mlp.gate.weight"}}
	for i := range cfg.Mixture.Experts {
		expert := fmt.Sprintf("mlp.experts.%d.", i)
		groups = append(groups, []string{expert + "gate_proj.weight", expert + "up_proj.weight"}, []string{expert + "down_proj.weight"})
	}
	return groups
}

// takeMixture takes the memory for the activations of one layer's experts.
func takeMixture(cfg *model.Config, rows int, t *kernel.Taker) *mixtureActivations {
	m := cfg.Mixture
	shape := experts.Shape{Experts: m.Experts, PerToken: m.PerToken, Normalise: m.Normalise}
	return &mixtureActivations{routing: experts.New(t, shape, rows), gateUp: t.Matrix(rows*m.PerToken, 2*m.Size)}
}

// takeMixtureSpace takes the scratch of the experts, with train for a backward pass as well.
func takeMixtureSpace(cfg *model.Config, rows int, train bool, t *kernel.Taker) mixtureSpace {
	m, pairs := cfg.Mixture, rows*cfg.Mixture.PerToken
	s := mixtureSpace{in: t.Matrix(pairs, cfg.HiddenSize), out: t.Matrix(pairs, cfg.HiddenSize), hidden: t.Matrix(pairs, m.Size)}
	if train {
		s.dHidden, s.dLogits = t.Matrix(pairs, m.Size), t.Matrix(rows, m.Experts)
	}
	return s
}

// activateExperts computes the activations of a layer's experts from the normed inputs [rows, H].
func (b *backbone) activateExperts(x *mixture, a *mixtureActivations, normed kernel.Matrix, given func(row int) []int32) {
	w, r := &b.work, a.routing
	x.router.apply(b.pool, w.low, r.Logits(normed.Rows), normed)
	r.Route(b.pool, given)
	in := w.experts.in
	r.Gather(b.pool, in, normed)
	r.Each(b.pool, func(i, from, to int) {
		x.gateUp[i].apply(b.pool, w.low.of(&x.gateUp[i], from, to), a.gateUp.RowRange(from, to), in.RowRange(from, to))
	})
}

// applyExperts writes the sums of the experts' results, weighted, to out [rows, H].
func (b *backbone) applyExperts(x *mixture, a *mixtureActivations, out kernel.Matrix) {
	w, r, pairs, size := &b.work, a.routing, a.routing.Pairs(), b.cfg.Mixture.Size
	gateUp, hidden, results := a.gateUp.RowRange(0, pairs), w.experts.hidden.RowRange(0, pairs), w.experts.out
	kernel.SiLU.Forward(b.pool, hidden, gateUp.ColRange(0, size), gateUp.ColRange(size, 2*size))
	r.Each(b.pool, func(i, from, to int) {
		x.down[i].apply(b.pool, w.low.of(&x.down[i], from, to), results.RowRange(from, to), hidden.RowRange(from, to))
	})
	r.Combine(b.pool, out, results)
}

// backExperts writes the gradient with respect to the normed inputs to dNormed [rows, H], given the
// gradient dy [rows, H] with respect to the layer's output.
func (b *backbone) backExperts(x, grad *mixture, a *mixtureActivations, dNormed, dy, normed kernel.Matrix) {
	r, low, w, pairs, size := a.routing, b.work.low, &b.work.experts, a.routing.Pairs(), b.cfg.Mixture.Size
	gateUp, hidden, dHidden := a.gateUp.RowRange(0, pairs), w.hidden.RowRange(0, pairs), w.dHidden.RowRange(0, pairs)
	gate, up := gateUp.ColRange(0, size), gateUp.ColRange(size, 2*size)
	in, dOut := w.in.RowRange(0, pairs), w.out.RowRange(0, pairs)

	r.Gather(b.pool, dOut, dy)
	kernel.SiLU.Forward(b.pool, hidden, gate, up)
	r.Each(b.pool, func(i, from, to int) {
		x.down[i].backInput(b.pool, low.of(&x.down[i], from, to), dHidden.RowRange(from, to), dOut.RowRange(from, to))
	})
	r.WeighBackward(b.pool, dHidden, hidden)
	r.Each(b.pool, func(i, from, to int) { // hidden has the pairs' weights now, so dOut has none
		x.down[i].backWeights(b.pool, low.of(&x.down[i], from, to), &grad.down[i], dOut.RowRange(from, to), hidden.RowRange(from, to))
	})
	kernel.SiLU.Backward(b.pool, gate, up, dHidden, gate, up)
	r.Gather(b.pool, in, normed)
	dIn := dOut // dOut is no longer needed
	r.Each(b.pool, func(i, from, to int) {
		dx, dy := dIn.RowRange(from, to), gateUp.RowRange(from, to)
		x.gateUp[i].backward(b.pool, low.of(&x.gateUp[i], from, to), &grad.gateUp[i], dx, dy, in.RowRange(from, to))
	})
	dLogits := w.dLogits.RowRange(0, normed.Rows)
	r.Backward(b.pool, dLogits, b.balance.byRow())
	x.router.backward(b.pool, low, &grad.router, dNormed, dLogits, normed)
	r.AddUp(b.pool, dNormed, dIn)
}
