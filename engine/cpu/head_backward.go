package cpu

import "github.com/trinity-go/trinity/engine/cpu/internal/kernel"

// backward adds the gradient of the head by dScores, or by dLogprob, dEntropy and the divergences'
// gradient, to grad. It writes the gradient with respect to the last hidden states to dOut [rows,
// H].
func (h *head) backward(m, grad *network, p *packing, dOut kernel.Matrix) {
	s, n := &h.space, len(p.head)
	if h.hasScore() {
		m.score.backward(h.pool, lowSpace{}, &grad.score, s.dNormed.RowRange(0, n), s.dScores.RowRange(0, n), s.normed.RowRange(0, n))
	} else {
		h.backLogits(m, grad, p)
	}
	dHidden := s.normed.RowRange(0, n) // the normed states are no longer needed
	clearRows(h.pool, dHidden)
	rmsNorm{h.cfg, h.pool, m.norm}.backward(dHidden, s.dNormed.RowRange(0, n), s.hidden.RowRange(0, n), s.rstd[:n], grad.norm)
	clearRows(h.pool, dOut)
	scatterAdd(h.pool, dOut, dHidden, s.index)
}

// backLogits adds the gradient of the vocabulary projection to grad, and writes the gradient with
// respect to the normed states to dNormed.
func (h *head) backLogits(m, grad *network, p *packing) {
	s, n := &h.space, len(p.head)
	for i := range p.head {
		divisor := h.divisor(&p.head[i])
		s.dLogprob[i] /= divisor
		s.dEntropy[i] /= divisor
		if h.compare.divergence != nil {
			h.compare.gradient[i] /= divisor
		}
	}
	h.eachChunk(n, func(from, to int) {
		logits := h.logitsOf(from, to)
		if h.recompute {
			h.chunkLogits(m, p, from, to)
		}
		if h.compare.divergence != nil {
			h.backCompare(p, logits, from, to)
		} else {
			h.backStats(p, logits, from, to)
		}
		dNormed, normed := s.dNormed.RowRange(from, to), s.normed.RowRange(from, to)
		h.backStates(dNormed, logits, m.head.weight)
		if grad.head.weight.Rows > 0 {
			kernel.MatMul(h.pool, grad.head.weight, logits.T(), normed, true)
		}
		if m.head.down.Rows > 0 {
			h.backAdapter(&m.head, &grad.head, dNormed, logits, normed)
		}
	})
}

// backAdapter adds the gradient of the head's A and B to grad, and that of their input to dNormed.
func (h *head) backAdapter(l, grad *linear, dNormed, dLogits, normed kernel.Matrix) {
	low := l.project(h.pool, h.space.low, normed)
	kernel.MatMul(h.pool, grad.up[0].b, dLogits.T(), low, true)
	dLow := kernel.NewMatrix(h.space.low.gradient, normed.Rows, l.down.Rows)
	h.backStates(dLow, dLogits, l.up[0].b)
	kernel.ScaleRows(h.pool, dLow, l.scale)
	kernel.MatMul(h.pool, grad.down, dLow.T(), normed, true)
	kernel.MatMul(h.pool, dNormed, dLow, l.down, true)
}

// vocabularyChain is how many tokens of the vocabulary one FMA chain of backStates adds up. Logits of
// the wrong tokens have tiny derivatives, which a chain over the whole vocabulary would round away.
const vocabularyChain = 2048

// backStates writes dLogits·w to dNormed, or to the derivatives of an adapter's low-rank states: chains
// of vocabularyChain tokens, added up.
func (h *head) backStates(dNormed, dLogits, w kernel.Matrix) {
	vocabulary, part := w.Rows, first(h.space.part, dNormed.Rows, dNormed.Cols)
	for from := 0; from < vocabulary; from += vocabularyChain {
		to, into := min(vocabulary, from+vocabularyChain), part
		if from == 0 {
			into = dNormed
		}
		kernel.MatMul(h.pool, into, dLogits.ColRange(from, to), w.RowRange(from, to), false)
		if from > 0 {
			kernel.AddRows(h.pool, dNormed, part)
		}
	}
}

// backStats replaces the logits of head rows [from, to) by the gradient of their log-probabilities
// and entropies with respect to the logits.
func (h *head) backStats(p *packing, logits kernel.Matrix, from, to int) {
	s := &h.space
	kernel.LogitBackward(h.pool, logits, s.targets[from:to], s.lse[from:to], s.entropy[from:to], s.dLogprob[from:to], s.dEntropy[from:to])
	if len(p.soft) == 0 {
		return
	}
	// LogitBackward has given the first target the derivatives of all.
	eachRow(h.pool, to-from, func(i int) {
		r := &p.head[from+i]
		soft := p.softOf(r)
		if soft == nil {
			return
		}
		row := logits.Row(i)
		row[r.target] -= s.dLogprob[from+i]
		for k, target := range soft.targets {
			row[target] += soft.d[k] / h.divisor(r)
		}
	})
}
