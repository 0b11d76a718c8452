package cpu

import (
	"slices"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// dropIdle takes out of the packing, and out of everything that is kept for the backward pass, the tokens that no derivative of the loss
// reaches: replies without an advantage, groups whose rewards are all alike. What they would add to the gradient is 0.
func (e *Engine) dropIdle() {
	p, h := &e.packing, &e.headSpace
	var active []int
	for i := range p.head {
		if h.derived(i) {
			active = append(active, i)
		}
	}
	if len(active) == len(p.head) {
		return
	}
	e.keepHead(active)
	before := len(p.tokens)
	if rows := p.keepNeeded(); len(rows) < before {
		for i := range e.work.layers {
			if i < e.opts.Recompute { // its other activations are gone already
				e.moveRows([]kernel.Matrix{e.work.layers[i].in}, rows)
				continue
			}
			e.keepRows(i, before, rows)
		}
	}
	for i, r := range p.head {
		h.index[i] = r.row
	}
}

// keepHead keeps some of the head rows, given in increasing order.
func (e *Engine) keepHead(active []int) {
	p, h := &e.packing, &e.headSpace
	for i, from := range active {
		p.head[i], h.targets[i] = p.head[from], h.targets[from]
	}
	n := len(active)
	p.head, h.index, h.targets = p.head[:n], h.index[:n], h.targets[:n]
	moved, vectors := []kernel.Matrix{h.hidden, h.normed, h.dScores}, [][]float32{h.rstd}
	if !e.hasScore() {
		moved, vectors = []kernel.Matrix{h.hidden, h.normed}, [][]float32{h.rstd, h.lse, h.entropy, h.dLogprob, h.dEntropy}
		if !h.recompute {
			moved = append(moved, h.logits)
		}
		if e.divergence != nil {
			moved, vectors = append(moved, h.teacher), append(vectors, h.teacherLSE, h.inner, h.dDistance)
		}
	}
	for _, v := range vectors {
		moved = append(moved, kernel.NewMatrix(v, len(v), 1))
	}
	e.moveRows(moved, active)
}

// keepNeeded keeps the segments that head rows are in, and their prefixes. It returns the rows that stay, as numbered before.
func (p *packing) keepNeeded() (rows []int) {
	wanted := make([]bool, len(p.tokens))
	for _, r := range p.head {
		wanted[r.row] = true
	}
	needed := make([]bool, len(p.segments))
	for i, s := range p.segments {
		if slices.Contains(wanted[s.Start:s.Start+s.Len], true) {
			needed[i] = true
			if s.Prefix >= 0 {
				needed[s.Prefix] = true
			}
		}
	}
	row, place := make([]int32, len(p.tokens)), make([]int, len(p.segments)) // where things go
	kept := 0
	for i, s := range p.segments {
		if !needed[i] {
			continue
		}
		place[i] = kept
		start := len(rows)
		for from := s.Start; from < s.Start+s.Len; from++ {
			row[from] = int32(len(rows))
			p.tokens[len(rows)], p.positions[len(rows)] = p.tokens[from], p.positions[from]
			rows = append(rows, from)
		}
		if s.Prefix >= 0 {
			s.Prefix = place[s.Prefix]
		}
		s.Start = start
		p.segments[kept] = s
		kept++
	}
	p.segments, p.tokens, p.positions = p.segments[:kept], p.tokens[:len(rows)], p.positions[:len(rows)]
	for i := range p.head {
		p.head[i].row = row[p.head[i].row]
	}
	return rows
}

// keepRows keeps some of the rows of a layer's activations, of so many before.
func (e *Engine) keepRows(layer, before int, rows []int) {
	a := &e.work.layers[layer]
	moved := []kernel.Matrix{a.in, a.qkv, a.attention, a.lse, a.mid, kernel.NewMatrix(a.rstd, before, 1), kernel.NewMatrix(a.midRstd, before, 1)}
	if e.cfg.QKNorm {
		moved = append(moved, a.raw)
		for head := range e.cfg.NumHeads + e.cfg.NumKVHeads { // one block of rows per head
			for i, from := range rows {
				a.headRstd[head*len(rows)+i] = a.headRstd[head*before+from]
			}
		}
	}
	if e.cfg.Sparse(layer) {
		e.moveRows([]kernel.Matrix{a.experts.gateUp}, a.experts.routing.Keep(rows))
	} else {
		moved = append(moved, a.gateUp)
	}
	e.moveRows(moved, rows)
}

// moveRows makes row i of every matrix what row from[i] ≥ i was.
func (e *Engine) moveRows(matrices []kernel.Matrix, from []int) {
	e.pool.Run(len(matrices), func(k int) {
		m := matrices[k]
		for i, row := range from {
			if i != row {
				copy(m.Row(i), m.Row(row))
			}
		}
	})
}
