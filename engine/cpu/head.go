package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

const (
	headChunk    = 512       // rows whose logits are computed at once where not all are kept
	logitsBudget = 512 << 20 // bytes of logits that are kept from forward to backward; more are computed again
)

// headSpace is the memory of the head: one row per wanted log-probability or value. It grows to the largest batch.
type headSpace struct {
	arena             *kernel.Arena
	rows              int
	kept              int           // rows of logits that have memory
	hidden            kernel.Matrix // [rows, H] before the final norm
	normed            kernel.Matrix // [rows, H]
	dNormed           kernel.Matrix // [rows, H]
	rstd              []float32     // [rows]
	scores            kernel.Matrix // [rows, labels] of a value head or reward model; the rest below is empty then
	dScores           kernel.Matrix // [rows, labels]
	logits            kernel.Matrix // [kept, V]
	lse               []float32     // [rows]
	logprob           []float32     // [rows] nats
	entropy           []float32     // [rows] nats
	discriminator     []float32     // [rows] nats, the mean entropy discriminator, where it is wanted
	dLogprob          []float32     // [rows]
	dEntropy          []float32     // [rows]
	index             []int32       // [rows] packed row
	targets           []int32       // [rows]
	recompute         bool          // logits of a chunk are gone when the next is computed
	wantDiscriminator bool

	// for divergences from teachers; empty without any
	teachers   []*Engine     // [experiences] of the batch at hand
	teacher    kernel.Matrix // [rows, TeacherWidth] normed last hidden states of the row's teacher, as many as it has
	slab       kernel.Matrix // [as many rows as teacherBudget holds, V] logits of a teacher
	teacherLSE []float32     // [rows]
	distance   []float32     // [rows] nats
	inner      []float32     // [rows] see kernel.Divergences
	dDistance  []float32     // [rows]
}

// reserve makes room for n rows. keep asks for the logits of all of them, which is granted within the budget.
func (h *headSpace) reserve(e *Engine, n int, keep bool) error {
	kept := min(n, headChunk)
	h.recompute = n > headChunk
	if keep && n*e.cfg.VocabSize*4 <= e.logitsBudget {
		kept, h.recompute = n, false
	}
	if e.hasScore() {
		kept, h.recompute = 0, false
	}
	if n > h.rows || kept > h.kept {
		if err := h.grow(e, max(n, h.rows), max(kept, h.kept)); err != nil {
			return err
		}
	}
	h.index, h.targets = h.index[:0], h.targets[:0]
	return nil
}

// plan makes room for the largest batch of so many rows, however many of its logits are kept.
func (h *headSpace) plan(e *Engine, rows int, train bool) error {
	kept := headChunk
	if e.hasScore() {
		return h.grow(e, rows, 0)
	}
	if train {
		kept = max(kept, e.logitsBudget/(4*e.cfg.VocabSize))
	}
	return h.grow(e, rows, min(rows, kept))
}

func (h *headSpace) grow(e *Engine, rows, kept int) error {
	if err := h.free(); err != nil {
		return err
	}
	*h = headSpace{arena: e.newArena(), rows: rows, kept: kept, recompute: h.recompute, wantDiscriminator: h.wantDiscriminator}
	t, H := kernel.Taker{Arena: h.arena}, e.cfg.HiddenSize
	h.hidden, h.normed, h.dNormed, h.rstd = t.Matrix(rows, H), t.Matrix(rows, H), t.Matrix(rows, H), t.Float32(rows)
	if e.hasScore() {
		h.scores, h.dScores = t.Matrix(rows, e.cfg.NumLabels), t.Matrix(rows, e.cfg.NumLabels)
	} else {
		h.logits = t.Matrix(kept, e.cfg.VocabSize)
		for _, v := range []*[]float32{&h.lse, &h.logprob, &h.entropy, &h.discriminator, &h.dLogprob, &h.dEntropy} {
			*v = t.Float32(rows)
		}
		if e.opts.TeacherWidth > 0 {
			h.teacher = t.Matrix(rows, e.opts.TeacherWidth)
			h.slab = t.Matrix(min(rows, max(1, e.teacherBudget/(4*e.cfg.VocabSize))), e.cfg.VocabSize)
			for _, v := range []*[]float32{&h.teacherLSE, &h.distance, &h.inner, &h.dDistance} {
				*v = t.Float32(rows)
			}
		}
	}
	h.index, h.targets = t.Int32(rows)[:0], t.Int32(rows)[:0]
	if t.Err != nil {
		h.free()
		*h = headSpace{}
		return fmt.Errorf("cpu: head of %d tokens: %w", rows, t.Err)
	}
	return nil
}

func (h *headSpace) free() error {
	if h.arena == nil {
		return nil
	}
	return h.arena.Free()
}

// keepStates makes room for every head row of p and fills hidden and normed, given the last hidden states of all rows.
func (e *Engine) keepStates(m *model, p *packing, out kernel.Matrix, keep bool) error {
	h, n := &e.headSpace, len(p.head)
	if err := h.reserve(e, n, keep); err != nil {
		return err
	}
	for _, r := range p.head {
		h.index, h.targets = append(h.index, r.row), append(h.targets, r.target)
	}
	hidden := h.hidden.RowRange(0, n)
	e.gather(hidden, out, h.index)
	kernel.RMSNorm(e.pool, h.normed.RowRange(0, n), hidden, m.norm, float32(e.cfg.RMSNormEps), h.rstd[:n])
	return nil
}

// score fills scores, or logprob, entropy and distance, and what backward needs for every head row of p, given its hidden states.
func (e *Engine) score(m *model, p *packing) {
	h, n := &e.headSpace, len(p.head)
	if e.hasScore() {
		e.apply(&m.score, h.scores.RowRange(0, n), h.normed.RowRange(0, n), false)
		return
	}
	e.eachChunk(n, func(from, to int) {
		logits := e.chunkLogits(m, p, from, to)
		kernel.LogitStats(e.pool, logits, h.targets[from:to], h.lse[from:to], h.entropy[from:to], h.logprob[from:to])
		if h.wantDiscriminator {
			kernel.EntropyDiscriminator(e.pool, logits, h.discriminator[from:to])
		}
		if e.divergence != nil {
			e.compare(p, logits, from, to)
		}
	})
}

// eachChunk cuts head rows where their logits share memory; where all have their own, the vocabulary's weights are packed once for all.
func (e *Engine) eachChunk(n int, do func(from, to int)) {
	chunk := n
	if e.headSpace.recompute {
		chunk = headChunk
	}
	for from := 0; from < n; from += chunk {
		do(from, min(n, from+chunk))
	}
}

// logitsOf is the memory of a chunk's logits.
func (e *Engine) logitsOf(from, to int) kernel.Matrix {
	if e.headSpace.recompute {
		from, to = 0, to-from
	}
	return e.headSpace.logits.RowRange(from, to)
}

// chunkLogits computes the logits of some head rows, divided by their temperatures.
func (e *Engine) chunkLogits(m *model, p *packing, from, to int) kernel.Matrix {
	logits := e.logitsOf(from, to)
	kernel.MatMul(e.pool, logits, e.headSpace.normed.RowRange(from, to), m.head.T(), false)
	e.temper(logits, p.head[from:to])
	return logits
}

// temper divides the logits of head rows by their temperatures.
func (e *Engine) temper(logits kernel.Matrix, rows []headRow) {
	e.eachRow(len(rows), func(i int) {
		if t := rows[i].temperature; t != 1 {
			kernel.Scale(logits.Row(i), logits.Row(i), 1/t)
		}
	})
}

// backScore adds the gradient of the head by dScores, or dLogprob, dEntropy and dDistance, to grad, and to dOut [rows, H], which it clears first.
func (e *Engine) backScore(m, grad *model, p *packing, dOut kernel.Matrix) {
	h, n := &e.headSpace, len(p.head)
	if e.hasScore() {
		e.backApply(&m.score, &grad.score, h.dNormed.RowRange(0, n), h.dScores.RowRange(0, n), h.normed.RowRange(0, n))
	} else {
		e.backLogits(m, grad, p)
	}
	dHidden := h.normed.RowRange(0, n) // the normed states have served
	e.clearRows(dHidden)
	kernel.RMSNormBackward(e.pool, dHidden, h.dNormed.RowRange(0, n), h.hidden.RowRange(0, n), m.norm, h.rstd[:n], grad.norm)
	e.clearRows(dOut)
	e.scatterAdd(dOut, dHidden, h.index)
}

// backLogits adds the gradient of the vocabulary projection to grad, and writes that by the normed states.
func (e *Engine) backLogits(m, grad *model, p *packing) {
	h, n := &e.headSpace, len(p.head)
	for i, r := range p.head {
		h.dLogprob[i] /= r.temperature
		h.dEntropy[i] /= r.temperature
		if e.divergence != nil {
			h.dDistance[i] /= r.temperature
		}
	}
	e.eachChunk(n, func(from, to int) {
		logits := e.logitsOf(from, to)
		if h.recompute {
			e.chunkLogits(m, p, from, to)
		}
		if e.divergence != nil {
			e.backCompare(p, logits, from, to)
		} else {
			e.backStats(logits, from, to)
		}
		kernel.MatMul(e.pool, h.dNormed.RowRange(from, to), logits, m.head, false)
		if grad.head.Rows > 0 {
			kernel.MatMul(e.pool, grad.head, logits.T(), h.normed.RowRange(from, to), true)
		}
	})
}

// backStats turns the logits of head rows [from, to) into the gradient by them of their log-probabilities and entropies.
func (e *Engine) backStats(logits kernel.Matrix, from, to int) {
	h := &e.headSpace
	kernel.LogitBackward(e.pool, logits, h.targets[from:to], h.lse[from:to], h.entropy[from:to], h.dLogprob[from:to], h.dEntropy[from:to])
}
