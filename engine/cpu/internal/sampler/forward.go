package sampler

import (
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// network computes steps. It holds the weights, the K/V cache and the activations of one step.
type network struct {
	cfg     *model.Config
	pool    *kernel.Pool
	shape   kernel.Attention
	weights *weights
	cache   []kernel.KVPages // by layer; empty in a layer with a convolution
	inputs  []kernel.Matrix  // by layer: [tokens, H] what convolutions read, by slot; see shortconv.go
	routes  routes           // experts of the tokens in the cache
	reading kernel.Reading   // plan of the step's attention
	act     activations

	observer func(phase string) // see Observe; nil for none
}

// activations are the values of one step, for at most R rows and S sequences.
type activations struct {
	x, normed kernel.Matrix       // [R, H]
	qkv       kernel.Matrix       // [R, (NumHeads+2·NumKVHeads)·HeadDim], or as a convolution needs it
	attended  kernel.Matrix       // [R, NumHeads·HeadDim], or as a convolution needs it
	gateUp    kernel.Matrix       // [R, 2·DenseSize]
	mixture   *mixtureActivations // nil for a model without experts
	hidden    kernel.Matrix       // [R, H] inputs of the head
	logits    kernel.Matrix       // [S, V] of S rows of them
	low       []float32           // [R, r of all maps with the same input]; grows
}

// batch holds the rows that one step computes, of any sequences and prompts.
type batch struct {
	tokens    []int32       // [R]
	positions []int32       // [R] of the tokens in their sequences
	sees      []kernel.View // [R] K/V that each row attends to
	slots     []int32       // [R] places in the cache for each row's K/V
	heads     []int         // rows whose hidden state the head needs, in order
	adapters  []*adapter    // [R]
	adapted   []stretch     // stretches of adapters, computed by forward

	// The rows of the head: first those of heads, then those of prompts whose hidden state was kept.
	headAdapters []*adapter
	headAdapted  []stretch // computed by head
}

func (b *batch) reset() {
	b.tokens, b.positions, b.sees, b.slots, b.heads = b.tokens[:0], b.positions[:0], b.sees[:0], b.slots[:0], b.heads[:0]
	b.adapters, b.headAdapters = b.adapters[:0], b.headAdapters[:0]
}

// add appends a row and returns its number.
func (b *batch) add(a *adapter, token int32, position int, c *chain) int {
	b.tokens = append(b.tokens, token)
	b.adapters = append(b.adapters, a)
	b.positions = append(b.positions, int32(position))
	b.sees = append(b.sees, kernel.View{Pages: c.pages, Tokens: position + 1})
	b.slots = append(b.slots, c.slot(position))
	return len(b.tokens) - 1
}

// cached returns the storage of keys and values beside weights of the given one: exactly what training computes for F32,
// and half the bytes where the weights are rounded anyway.
func cached(weights kernel.Storage) kernel.Storage {
	if weights == kernel.F32 {
		return kernel.F32
	}
	return kernel.BF16
}

// newNetwork takes all memory for steps.
func newNetwork(cfg *model.Config, opts Options, arena *kernel.Arena) (*network, error) {
	w, err := newWeights(cfg, opts, arena)
	if err != nil {
		return nil, err
	}
	m := &network{cfg: cfg, pool: opts.Pool, weights: w}
	m.shape = kernel.Attention{Heads: cfg.NumHeads, KVHeads: cfg.NumKVHeads, HeadDim: cfg.HeadDim, Scale: float32(cfg.AttentionScale)}
	t := taker{Taker: kernel.Taker{Arena: arena}}
	m.cache, m.inputs = make([]kernel.KVPages, cfg.NumLayers), make([]kernel.Matrix, cfg.NumLayers)
	qkv, attended := 0, 0
	for i := range cfg.NumLayers {
		p := cfg.Projections(i)
		qkv, attended = max(qkv, p.QKV.Out), max(attended, p.Output.In)
		if cfg.Convolves(i) {
			m.inputs[i] = t.Matrix(pagesFor(opts.MaxTokens)*pageTokens, cfg.HiddenSize)
			continue
		}
		if m.cache[i], err = kernel.NewKVPages(arena, m.shape, pagesFor(opts.MaxTokens), cached(opts.Storage)); err != nil {
			return nil, err
		}
	}
	if opts.Routes {
		m.routes = t.routes(cfg, opts)
	}
	rows := opts.decodedRows() + opts.PrefillChunk
	m.act = activations{
		x:        t.Matrix(rows, cfg.HiddenSize),
		normed:   t.Matrix(rows, cfg.HiddenSize),
		qkv:      t.Matrix(rows, qkv),
		attended: t.Matrix(rows, attended),
		gateUp:   t.Matrix(rows, 2*cfg.DenseSize()),
		hidden:   t.Matrix(rows, cfg.HiddenSize),
		logits:   t.Matrix(opts.decodedRows(), cfg.VocabSize),
	}
	if cfg.Mixture != nil {
		m.act.mixture = t.mixtureActivations(cfg, rows)
	}
	return m, t.Err
}

// forward runs the batch through all layers and stores its K/V. It writes the normalised hidden
// states of b.heads to the first rows of act.hidden.
func (m *network) forward(b *batch) {
	rows := len(b.tokens)
	if rows == 0 {
		return
	}
	b.adapted = stretches(b.adapted, b.adapters)
	x := m.act.x.RowRange(0, rows)
	m.pool.Run(rows, func(i int) {
		m.weights.embed(x.Row(i), int(b.tokens[i]))
		if s := m.cfg.EmbeddingScale; s != 0 {
			kernel.Scale(x.Row(i), x.Row(i), float32(s))
		}
	})
	m.reading.Plan(m.shape, m.pool, b.sees)
	for layer := range m.weights.layers {
		m.attention(layer, b, x)
		m.mlp(layer, b, x)
	}
	if len(b.heads) == 0 {
		return
	}
	hidden := m.act.hidden.RowRange(0, len(b.heads))
	for i, row := range b.heads {
		copy(hidden.Row(i), x.Row(row))
	}
	kernel.RMSNorm(m.pool, hidden, hidden, m.weights.norm, float32(m.cfg.RMSNormEps), nil)
}

// attention adds the output of the attention block, or of the convolution in its place, to x [R, H].
func (m *network) attention(layer int, b *batch, x kernel.Matrix) {
	w := &m.weights.layers[layer]
	normed := m.act.normed.RowRange(0, x.Rows)
	in := m.norm(normed, x, w.attentionNorm)
	m.mark("rest")
	qkv := m.act.qkv.RowRange(0, x.Rows).ColRange(0, w.qkv.w.N)
	m.linear(qkv, in, w.qkv)
	m.adapt(b.adapted, qkv, in, func(u *updates) *update { return &u.layers[layer].qkv })
	m.mark("qkv")
	attended := m.act.attended.RowRange(0, x.Rows).ColRange(0, w.out.w.K)
	if m.cfg.Convolves(layer) {
		w.conv.Paged(m.pool, attended, qkv, m.inputs[layer], b.slots, b.sees)
		m.mark("convolution")
	} else {
		m.attend(layer, b, attended, qkv)
	}
	out := normed // the normed inputs are no longer needed
	m.linear(out, attended, w.out)
	m.adapt(b.adapted, out, attended, func(u *updates) *update { return &u.layers[layer].out })
	m.mark("out")
	m.add(x, m.norm(out, out, w.outNorm))
}

// attend stores a layer's keys and values, and writes what its attention gives.
func (m *network) attend(layer int, b *batch, attended, qkv kernel.Matrix) {
	cfg, w := m.cfg, &m.weights.layers[layer]
	q, kv := cfg.NumHeads*cfg.HeadDim, cfg.NumKVHeads*cfg.HeadDim
	if w.qNorm != nil {
		m.normHeads(qkv.ColRange(0, q), w.qNorm)
		m.normHeads(qkv.ColRange(q, q+kv), w.kNorm)
	}
	m.shape.Window = cfg.Window(layer)
	rope := &m.weights.rope
	if m.shape.Window > 0 && m.weights.local.cos.Rows > 0 {
		rope = &m.weights.local
	}
	if cfg.Rotates(layer) {
		kernel.ScaleByPosition(m.pool, qkv.ColRange(0, q), rope.query, b.positions)
		kernel.RoPE(m.pool, qkv.ColRange(0, q+kv), cfg.HeadDim, rope.cos, rope.sin, b.positions)
	}
	m.mark("rest")
	m.cache[layer].Store(m.pool, qkv.ColRange(q, q+kv), qkv.ColRange(q+kv, q+2*kv), b.slots)
	m.mark("store")
	m.shape.Paged(m.pool, attended, qkv.ColRange(0, q), &m.cache[layer], &m.reading)
	m.mark("attention")
}

// add adds what a part of a layer gives to the residual stream x, with the model's factor.
func (m *network) add(x, part kernel.Matrix) {
	if s := m.cfg.ResidualScale; s != 0 {
		kernel.ScaleRows(m.pool, part, float32(s))
	}
	kernel.AddRows(m.pool, x, part)
}

// norm returns the normed rows of x, in y, which may be x; x itself if the model has no such norm.
func (m *network) norm(y, x kernel.Matrix, gain []float32) kernel.Matrix {
	if gain == nil {
		return x
	}
	kernel.RMSNorm(m.pool, y, x, gain, float32(m.cfg.RMSNormEps), nil)
	return y
}

// normHeads applies RMSNorm in place to x [R, heads·HeadDim], as many columns at once as weight has.
func (m *network) normHeads(x kernel.Matrix, weight []float32) {
	tasks := min(m.pool.Size(), x.Rows)
	m.pool.Run(tasks, func(task int) {
		for i := task; i < x.Rows; i += tasks {
			heads := kernel.NewMatrix(x.Row(i), x.Cols/len(weight), len(weight))
			kernel.RMSNorm(nil, heads, heads, weight, float32(m.cfg.RMSNormEps), nil)
		}
	})
}

// mlp adds the output of the MLP, or of the experts, to x [R, H].
func (m *network) mlp(layer int, b *batch, x kernel.Matrix) {
	w := &m.weights.layers[layer]
	out := m.act.normed.RowRange(0, x.Rows)
	in := m.norm(out, x, w.mlpNorm)
	m.mark("rest")
	if w.mixture != nil {
		m.mixture(layer, b, in)
		m.routes.keep(layer, m.act.mixture.routing, b.slots)
		m.mark("experts")
	} else {
		m.dense(layer, b, out, in)
	}
	m.add(x, m.norm(out, out, w.downNorm))
}

// dense writes the output of the MLP to y [R, H], which may be its input x.
func (m *network) dense(layer int, b *batch, y, x kernel.Matrix) {
	w, n := &m.weights.layers[layer], m.cfg.IntermediateSize
	gateUp, activation := m.act.gateUp.RowRange(0, x.Rows), kernel.SiLU
	if m.cfg.GELU {
		activation = kernel.GELU
	}
	m.linear(gateUp, x, w.gateUp)
	m.adapt(b.adapted, gateUp, x, func(u *updates) *update { return &u.layers[layer].gateUp })
	m.mark("gate_up")
	gate := gateUp.ColRange(0, n)
	activation.Forward(m.pool, gate, gate, gateUp.ColRange(n, 2*n))
	m.mark("rest")
	m.linear(y, gate, w.down)
	m.adapt(b.adapted, y, gate, func(u *updates) *update { return &u.layers[layer].down })
	m.mark("down")
}

// linear computes y = x·Wᵀ + bias.
func (m *network) linear(y, x kernel.Matrix, l linear) {
	kernel.MatMulPacked(m.pool, y, x, l.w, false)
	if l.bias != nil {
		kernel.AddBias(m.pool, y, l.bias)
	}
}

// head computes the logits of rows of act.hidden, as many as act.logits has. Each has its adapter in b.headAdapters.
func (m *network) head(b *batch, from, to int) kernel.Matrix {
	m.mark("rest")
	logits, hidden := m.act.logits.RowRange(0, to-from), m.act.hidden.RowRange(from, to)
	kernel.MatMulPacked(m.pool, logits, hidden, m.weights.head, false)
	b.headAdapted = stretches(b.headAdapted, b.headAdapters[from:to])
	m.adapt(b.headAdapted, logits, hidden, func(u *updates) *update { return &u.head })
	if s := m.cfg.LogitScale; s != 0 {
		kernel.ScaleRows(m.pool, logits, float32(1/s))
	}
	m.mark("head")
	return logits
}

// copyPage copies the first tokens of a page to another, in all layers.
func (m *network) copyPage(dst, src int32, tokens int) {
	m.routes.copy(dst, src, tokens)
	for layer := range m.cache {
		if m.cfg.Convolves(layer) {
			m.copyInputs(layer, dst, src, tokens)
			continue
		}
		m.cache[layer].Copy(dst, src, tokens)
	}
}
