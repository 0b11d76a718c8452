package sampler

import (
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/internal/experts"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// mixtureWeights are one layer's router and experts, which replace the MLP.
type mixtureWeights struct {
	router       linear   // [experts, H]
	gateUp, down []linear // one per expert
}

// mixtureActivations are the values of one step; a pair is one row at one of its experts.
type mixtureActivations struct {
	routing *experts.Routing
	in, out kernel.Matrix // [pairs, H]
	gateUp  kernel.Matrix // [pairs, 2·Size]
}

func (t *taker) mixture(cfg *model.Config) *mixtureWeights {
	m := cfg.Mixture
	router := *t
	router.storage = kernel.F32 // rounded logits would choose other experts than training
	w := &mixtureWeights{router: router.linear(m.Experts, cfg.HiddenSize, false)}
	t.Err = router.Err
	for range m.Experts {
		w.gateUp = append(w.gateUp, t.linear(2*m.Size, cfg.HiddenSize, false))
		w.down = append(w.down, t.linear(cfg.HiddenSize, m.Size, false))
	}
	return w
}

func (t *taker) mixtureActivations(cfg *model.Config, rows int) *mixtureActivations {
	m, pairs := cfg.Mixture, rows*cfg.Mixture.PerToken
	shape := experts.Shape{Experts: m.Experts, PerToken: m.PerToken, Normalise: m.Normalise}
	return &mixtureActivations{routing: experts.New(&t.Taker, shape, rows), in: t.Matrix(pairs, cfg.HiddenSize),
		out: t.Matrix(pairs, cfg.HiddenSize), gateUp: t.Matrix(pairs, 2*m.Size)}
}

func (l *loader) mixture(w *mixtureWeights, prefix string) error {
	if err := l.linear(w.router, prefix+"mlp.gate"); err != nil {
		return err
	}
	for i := range w.gateUp {
		expert := fmt.Sprintf("%smlp.experts.%d.", prefix, i)
		if err := l.linear(w.gateUp[i], expert+"gate_proj", expert+"up_proj"); err != nil {
			return err
		}
		if err := l.linear(w.down[i], expert+"down_proj"); err != nil {
			return err
		}
	}
	return nil
}

// mixture replaces the normed inputs x [R, H] by the weighted sums of their experts' results.
func (m *network) mixture(layer int, b *batch, x kernel.Matrix) {
	w, a, size := m.weights.layers[layer].mixture, m.act.mixture, m.cfg.Mixture.Size
	m.linear(a.routing.Logits(x.Rows), x, w.router)
	a.routing.Route(m.pool, nil)
	a.routing.Gather(m.pool, a.in, x)
	low := m.lowOfPairs(b.adapted, layer, a.routing.Pairs())
	a.routing.Each(m.pool, func(i, from, to int) {
		gateUp, in, out := a.gateUp.RowRange(from, to), a.in.RowRange(from, to), a.out.RowRange(from, to)
		m.linear(gateUp, in, w.gateUp[i])
		m.adaptPairs(b, layer, from, low, gateUp, in, func(l *layerUpdates) *update { return &l.experts[i].gateUp })
		gate := gateUp.ColRange(0, size)
		kernel.SiLU.Forward(m.pool, gate, gate, gateUp.ColRange(size, 2*size))
		m.linear(out, gate, w.down[i])
		m.adaptPairs(b, layer, from, low, out, gate, func(l *layerUpdates) *update { return &l.experts[i].down })
	})
	a.routing.Combine(m.pool, x, a.out)
}
