package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

const (
	headChunk    = 512       // rows per chunk of logits if the budget does not hold all rows
	logitsBudget = 512 << 20 // bytes of logits that are kept from forward to backward
)

// head computes log-probabilities, entropies and divergences, or values and scores, from the last
// hidden states, and the gradient of a loss of them. A head row is one token that a loss can see.
type head struct {
	cfg          *model.Config
	pool         *kernel.Pool
	newArena     func() *kernel.Arena
	budget       int  // bytes of logits that are kept from forward to backward; beyond it, they are recomputed
	recompute    bool // the logits of each chunk overwrite those of the previous one
	discriminate bool // compute entropy discriminators
	low          int  // rank of the adapter of the vocabulary projection; 0 without one
	space        headSpace
	compare      comparison
}

// headSpace is the memory of the head, one row per head row. It grows to the largest batch.
type headSpace struct {
	arena         *kernel.Arena
	rows          int
	kept          int           // rows of logits that have memory
	hidden        kernel.Matrix // [rows, H] before the final norm
	normed        kernel.Matrix // [rows, H]
	dNormed       kernel.Matrix // [rows, H]
	rstd          []float32     // [rows]
	scores        kernel.Matrix // [rows, labels] of a value head or reward model; everything below is then empty
	dScores       kernel.Matrix // [rows, labels]
	logits        kernel.Matrix // [kept, V]
	part          kernel.Matrix // [kept, max(H, low)] of backStates
	low           lowSpace      // of the adapter's [kept, low]
	lse           []float32     // [rows]
	logprob       []float32     // [rows] nats
	entropy       []float32     // [rows] nats
	discriminator []float32     // [rows] nats, the mean entropy discriminator; valid if discriminate is set
	dLogprob      []float32     // [rows]
	dEntropy      []float32     // [rows]
	index         []int32       // [rows] packed row
	targets       []int32       // [rows]
}

// hasScore reports whether the model has a value head or scores sequences, and so has no
// log-probabilities.
func (h *head) hasScore() bool { return h.cfg.Head != model.CausalLM }

// reserve makes room for n head rows. keep asks for memory for the logits of all of them; the head
// grants it within its budget.
func (h *head) reserve(n int, keep bool) error {
	kept := min(n, headChunk)
	h.recompute = n > headChunk
	if keep && n*h.cfg.VocabSize*4 <= h.budget {
		kept, h.recompute = n, false
	}
	if h.hasScore() {
		kept, h.recompute = 0, false
	}
	if n > h.space.rows || kept > h.space.kept {
		if err := h.grow(max(n, h.space.rows), max(kept, h.space.kept)); err != nil {
			return err
		}
	}
	h.space.index, h.space.targets = h.space.index[:0], h.space.targets[:0]
	return nil
}

// plan makes room for the largest batch of so many rows, whichever share of its logits is kept.
func (h *head) plan(rows int, train bool) error {
	if h.hasScore() {
		return h.grow(rows, 0)
	}
	return h.grow(rows, min(rows, h.keeps(train)))
}

// keeps returns the most rows of logits that have memory in a plan.
func (h *head) keeps(train bool) int {
	if !train {
		return headChunk
	}
	return max(headChunk, h.budget/(4*h.cfg.VocabSize))
}

// widen makes room for an adapter of the vocabulary projection of so high a rank. After an error, the next pass takes the
// memory of before again.
func (h *head) widen(rank int) error {
	if rank <= h.low {
		return nil
	}
	before := h.low
	h.low = rank
	err := h.grow(h.space.rows, h.space.kept)
	if err != nil {
		h.low = before
	}
	return err
}

// grow replaces the memory by memory for so many rows, and for the logits of kept rows at once.
func (h *head) grow(rows, kept int) error {
	if err := h.free(); err != nil {
		return err
	}
	s := headSpace{arena: h.newArena(), rows: rows, kept: kept}
	t, H := kernel.Taker{Arena: s.arena}, h.cfg.HiddenSize
	s.hidden, s.normed, s.dNormed, s.rstd = t.Matrix(rows, H), t.Matrix(rows, H), t.Matrix(rows, H), t.Float32(rows)
	if h.hasScore() {
		s.scores, s.dScores = t.Matrix(rows, h.cfg.NumLabels), t.Matrix(rows, h.cfg.NumLabels)
	} else {
		s.logits, s.part = t.Matrix(kept, h.cfg.VocabSize), t.Matrix(kept, max(H, h.low))
		s.low = lowSpace{values: t.Float32(kept * h.low), gradient: t.Float32(kept * h.low)}
		for _, v := range []*[]float32{&s.lse, &s.logprob, &s.entropy, &s.discriminator, &s.dLogprob, &s.dEntropy} {
			*v = t.Float32(rows)
		}
		h.compare.take(&t, rows, h.cfg.VocabSize)
	}
	s.index, s.targets = t.Int32(rows)[:0], t.Int32(rows)[:0]
	h.space = s
	if t.Err != nil {
		h.free()
		h.space = headSpace{}
		return fmt.Errorf("cpu: head of %d tokens: %w", rows, t.Err)
	}
	return nil
}

func (h *head) free() error {
	if h.space.arena == nil {
		return nil
	}
	return h.space.arena.Free()
}

// load makes room for every head row of p, and fills hidden and normed from out, the last hidden
// states of all packed rows.
func (h *head) load(m *network, p *packing, out kernel.Matrix, keep bool) error {
	n := len(p.head)
	if err := h.reserve(n, keep); err != nil {
		return err
	}
	s := &h.space
	for _, r := range p.head {
		s.index, s.targets = append(s.index, r.row), append(s.targets, r.target)
	}
	hidden := s.hidden.RowRange(0, n)
	gather(h.pool, hidden, out, s.index)
	rmsNorm{h.cfg, h.pool, m.norm}.apply(s.normed.RowRange(0, n), hidden, s.rstd[:n])
	return nil
}

// forward fills scores, or logprob, entropy and divergences, for every head row of p, and keeps
// what backward needs.
func (h *head) forward(m *network, p *packing) {
	s, n := &h.space, len(p.head)
	if h.hasScore() {
		m.score.apply(h.pool, lowSpace{}, s.scores.RowRange(0, n), s.normed.RowRange(0, n))
		return
	}
	h.eachChunk(n, func(from, to int) {
		logits := h.chunkLogits(m, p, from, to)
		kernel.LogitStats(h.pool, logits, s.targets[from:to], s.lse[from:to], s.entropy[from:to], s.logprob[from:to])
		h.softStats(p, logits, from, to)
		if h.discriminate {
			kernel.EntropyDiscriminator(h.pool, logits, s.discriminator[from:to])
		}
		if h.compare.divergence != nil {
			h.compareRows(p, logits, from, to)
		}
	})
}

// softStats fills the log-probabilities of the rows [from, to) that have several targets.
func (h *head) softStats(p *packing, logits kernel.Matrix, from, to int) {
	if len(p.soft) == 0 {
		return
	}
	eachRow(h.pool, to-from, func(i int) {
		if s := p.softOf(&p.head[from+i]); s != nil {
			kernel.Logprobs(s.logprob, logits.Row(i), s.targets)
		}
	})
}

// eachChunk calls do for consecutive head rows [from, to): for chunks if their logits share memory,
// for all at once otherwise, because each product packs the vocabulary's weights anew.
func (h *head) eachChunk(n int, do func(from, to int)) {
	chunk := n
	if h.recompute {
		chunk = headChunk
	}
	for from := 0; from < n; from += chunk {
		do(from, min(n, from+chunk))
	}
}

// logitsOf returns the memory of a chunk's logits.
func (h *head) logitsOf(from, to int) kernel.Matrix {
	if h.recompute {
		from, to = 0, to-from
	}
	return h.space.logits.RowRange(from, to)
}

// chunkLogits computes the logits of head rows [from, to), divided by their temperatures.
func (h *head) chunkLogits(m *network, p *packing, from, to int) kernel.Matrix {
	logits := h.logitsOf(from, to)
	m.head.apply(h.pool, h.space.low, logits, h.space.normed.RowRange(from, to))
	scaleLogits(h.pool, h.cfg, logits)
	applyTemperature(h.pool, logits, p.head[from:to])
	return logits
}

// scaleLogits divides logits by the divisor of the model that gave them.
func scaleLogits(pool *kernel.Pool, cfg *model.Config, logits kernel.Matrix) {
	if s := cfg.LogitScale; s != 0 {
		kernel.ScaleRows(pool, logits, float32(1/s))
	}
}

// divisor returns what the logits of a row are divided by: its temperature, and the model's own divisor.
func (h *head) divisor(r *headRow) float32 {
	if s := h.cfg.LogitScale; s != 0 {
		return r.temperature * float32(s)
	}
	return r.temperature
}

// applyTemperature divides the logits of head rows by their temperatures.
func applyTemperature(pool *kernel.Pool, logits kernel.Matrix, rows []headRow) {
	eachRow(pool, len(rows), func(i int) {
		if t := rows[i].temperature; t != 1 {
			kernel.Scale(logits.Row(i), logits.Row(i), 1/t)
		}
	})
}

// keep drops all head rows but some, given in increasing order.
func (h *head) keep(p *packing, active []int) {
	s := &h.space
	for i, from := range active {
		p.head[i], s.targets[i] = p.head[from], s.targets[from]
	}
	n := len(active)
	p.head, s.index, s.targets = p.head[:n], s.index[:n], s.targets[:n]
	moved, vectors := []kernel.Matrix{s.hidden, s.normed}, [][]float32{s.rstd}
	if h.hasScore() {
		moved = append(moved, s.dScores)
	} else {
		vectors = append(vectors, s.lse, s.entropy, s.dLogprob, s.dEntropy)
		if !h.recompute {
			moved = append(moved, s.logits)
		}
		if c := &h.compare; c.divergence != nil {
			moved, vectors = append(moved, c.states), append(vectors, c.lse, c.inner, c.gradient)
		}
	}
	for _, v := range vectors {
		moved = append(moved, kernel.NewMatrix(v, len(v), 1))
	}
	moveRows(h.pool, moved, active)
}
