package sampler

import (
	"math"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile"
)

// model computes steps: weights, K/V cache and the activations of one step.
type model struct {
	cfg     *modelfile.Config
	pool    *kernel.Pool
	shape   kernel.Attention
	weights *weights
	cache   cache
	seen    []kernel.Cache // [R] what each row of the batch sees, in one layer
	act     activations
}

// cache holds the keys and values of all tokens in memory, layer by layer: [rows, NumKVHeads·HeadDim] each.
type cache struct {
	keys, values []kernel.Matrix
}

// activations of one step, R rows at most.
type activations struct {
	x, normed []float32 // [R, H]
	qkv       []float32 // [R, (NumHeads+2·NumKVHeads)·HeadDim]
	attended  []float32 // [R, NumHeads·HeadDim]
	lse       []float32 // [R, NumHeads]
	gateUp    []float32 // [R, 2·IntermediateSize]
	hidden    []float32 // [S, H] inputs of the head, S sequences at most
	logits    []float32 // [S, V]
}

// batch is what one step computes: rows of any sequences and prompts.
type batch struct {
	tokens    []int32 // [R]
	positions []int32 // [R] of the tokens in their sequences
	sees      []view  // [R] the cache rows that each attends to
	heads     []int   // rows whose hidden state the head needs, in order

	starts []kernel.Segment // runs of rows, the last of the batch, that begin a sequence: they see one another alone
}

// singles is how many rows come before those of starts.
func (b *batch) singles() int {
	if len(b.starts) == 0 {
		return len(b.tokens)
	}
	return b.starts[0].Start
}

// view is the cache rows of the tokens up to one of them: those shared with others, then the sequence's own, of which
// the last is the token's.
type view struct{ shared, own extent }

func (v view) last() int { return v.own.start + v.own.len - 1 }

func (b *batch) reset() {
	b.tokens, b.positions, b.sees, b.heads, b.starts = b.tokens[:0], b.positions[:0], b.sees[:0], b.heads[:0], b.starts[:0]
}

// add appends a row and returns its number. Its K/V go to the last row that it sees.
func (b *batch) add(token int32, position int, prompt, own extent) int {
	b.tokens = append(b.tokens, token)
	b.positions = append(b.positions, int32(position))
	b.sees = append(b.sees, view{prompt, own})
	return len(b.tokens) - 1
}

// newModel takes all memory that steps will need.
func newModel(cfg *modelfile.Config, opts Options, arena *kernel.Arena) (*model, error) {
	w, err := newWeights(cfg, opts, arena)
	if err != nil {
		return nil, err
	}
	m := &model{cfg: cfg, pool: opts.Pool, weights: w}
	m.shape = kernel.Attention{Heads: cfg.NumHeads, KVHeads: cfg.NumKVHeads, HeadDim: cfg.HeadDim, Scale: float32(1 / math.Sqrt(float64(cfg.HeadDim)))}
	t := taker{arena: arena}
	kv := cfg.NumKVHeads * cfg.HeadDim
	for range cfg.NumLayers {
		m.cache.keys = append(m.cache.keys, kernel.NewMatrix(t.floats(opts.MaxTokens*kv), opts.MaxTokens, kv))
		m.cache.values = append(m.cache.values, kernel.NewMatrix(t.floats(opts.MaxTokens*kv), opts.MaxTokens, kv))
	}
	rows := opts.MaxSequences + opts.PrefillChunk
	m.act = activations{
		x:        t.floats(rows * cfg.HiddenSize),
		normed:   t.floats(rows * cfg.HiddenSize),
		qkv:      t.floats(rows * (cfg.NumHeads + 2*cfg.NumKVHeads) * cfg.HeadDim),
		attended: t.floats(rows * cfg.NumHeads * cfg.HeadDim),
		lse:      t.floats(rows * cfg.NumHeads),
		gateUp:   t.floats(rows * 2 * cfg.IntermediateSize),
		hidden:   t.floats(opts.MaxSequences * cfg.HiddenSize),
		logits:   t.floats(opts.MaxSequences * cfg.VocabSize),
	}
	return m, t.err
}

// forward runs the batch through all layers, writes its K/V, and puts the normalised hidden states of b.heads into the
// first rows of act.hidden.
func (m *model) forward(b *batch) {
	rows, h := len(b.tokens), m.cfg.HiddenSize
	if rows == 0 {
		return
	}
	x := kernel.NewMatrix(m.act.x, rows, h)
	for i, t := range b.tokens {
		copy(x.Row(i), m.weights.embedding.Row(int(t)))
	}
	for layer := range m.weights.layers {
		m.attention(layer, b, x)
		m.mlp(layer, x)
	}
	if len(b.heads) == 0 {
		return
	}
	hidden := kernel.NewMatrix(m.act.hidden, len(b.heads), h)
	for i, row := range b.heads {
		copy(hidden.Row(i), x.Row(row))
	}
	kernel.RMSNorm(m.pool, hidden, hidden, m.weights.norm, float32(m.cfg.RMSNormEps), nil)
}

// attention adds the attention block's output to x [R, H].
func (m *model) attention(layer int, b *batch, x kernel.Matrix) {
	cfg, w := m.cfg, &m.weights.layers[layer]
	q, kv := cfg.NumHeads*cfg.HeadDim, cfg.NumKVHeads*cfg.HeadDim
	normed := kernel.NewMatrix(m.act.normed, x.Rows, x.Cols)
	kernel.RMSNorm(m.pool, normed, x, w.attentionNorm, float32(cfg.RMSNormEps), nil)
	qkv := kernel.NewMatrix(m.act.qkv, x.Rows, q+2*kv)
	m.linear(qkv, normed, w.qkv, false)
	if w.qNorm != nil {
		m.normHeads(qkv.ColRange(0, q), w.qNorm)
		m.normHeads(qkv.ColRange(q, q+kv), w.kNorm)
	}
	kernel.RoPE(m.pool, qkv.ColRange(0, q+kv), cfg.HeadDim, m.weights.cos, m.weights.sin, b.positions)
	keys, values := m.cache.keys[layer], m.cache.values[layer]
	for i, v := range b.sees {
		copy(keys.Row(v.last()), qkv.Row(i)[q:q+kv])
		copy(values.Row(v.last()), qkv.Row(i)[q+kv:])
	}
	attended := kernel.NewMatrix(m.act.attended, x.Rows, q)
	m.attend(layer, b, attended, qkv)
	m.linear(x, attended, w.out, true)
}

// normHeads is RMSNorm over each head of x [R, heads·HeadDim].
func (m *model) normHeads(x kernel.Matrix, weight []float32) {
	tasks := min(m.pool.Size(), x.Rows)
	m.pool.Run(tasks, func(task int) {
		for i := task; i < x.Rows; i += tasks {
			heads := kernel.NewMatrix(x.Row(i), x.Cols/m.cfg.HeadDim, m.cfg.HeadDim)
			kernel.RMSNorm(nil, heads, heads, weight, float32(m.cfg.RMSNormEps), nil)
		}
	})
}

// mlp adds the SwiGLU block's output to x [R, H].
func (m *model) mlp(layer int, x kernel.Matrix) {
	w, n := &m.weights.layers[layer], m.cfg.IntermediateSize
	normed := kernel.NewMatrix(m.act.normed, x.Rows, x.Cols)
	kernel.RMSNorm(m.pool, normed, x, w.mlpNorm, float32(m.cfg.RMSNormEps), nil)
	gateUp := kernel.NewMatrix(m.act.gateUp, x.Rows, 2*n)
	m.linear(gateUp, normed, w.gateUp, false)
	gate := gateUp.ColRange(0, n)
	kernel.SwiGLU(m.pool, gate, gate, gateUp.ColRange(n, 2*n))
	m.linear(x, gate, w.down, true)
}

// linear is y = x·Wᵀ + bias, or y += x·Wᵀ + bias.
func (m *model) linear(y, x kernel.Matrix, l linear, accumulate bool) {
	kernel.MatMulPacked(m.pool, y, x, l.w, accumulate)
	if l.bias != nil {
		kernel.AddBias(m.pool, y, l.bias)
	}
}

// head computes the logits of the first n rows of act.hidden.
func (m *model) head(n int) kernel.Matrix {
	logits := kernel.NewMatrix(m.act.logits, n, m.cfg.VocabSize)
	kernel.MatMulPacked(m.pool, logits, kernel.NewMatrix(m.act.hidden, n, m.cfg.HiddenSize), m.weights.head, false)
	return logits
}

// attend writes what every row gathers from the values that it sees. Rows that begin a sequence find all they see in
// qkv, beside one another, which is faster than the cache and has the same bits.
func (m *model) attend(layer int, b *batch, out, qkv kernel.Matrix) {
	q, kv := m.cfg.NumHeads*m.cfg.HeadDim, m.cfg.NumKVHeads*m.cfg.HeadDim
	m.shape.Window = m.cfg.Window(layer)
	queries, singles := qkv.ColRange(0, q), b.singles()
	if singles > 0 {
		m.shape.Decode(m.pool, out.RowRange(0, singles), queries.RowRange(0, singles), m.views(layer, b.sees[:singles]))
	}
	if len(b.starts) > 0 {
		lse := kernel.NewMatrix(m.act.lse, out.Rows, m.cfg.NumHeads)
		m.shape.Forward(m.pool, out, lse, queries, qkv.ColRange(q, q+kv), qkv.ColRange(q+kv, q+2*kv), b.starts)
	}
}

// views are the keys and values that rows see in one layer.
func (m *model) views(layer int, sees []view) []kernel.Cache {
	m.seen = m.seen[:0]
	for _, v := range sees {
		m.seen = append(m.seen, kernel.Cache{Shared: m.cache.kv(layer, v.shared), Own: m.cache.kv(layer, v.own)})
	}
	return m.seen
}

func (c *cache) kv(layer int, x extent) kernel.KV {
	return kernel.KV{K: c.keys[layer].RowRange(x.start, x.start+x.len), V: c.values[layer].RowRange(x.start, x.start+x.len)}
}
