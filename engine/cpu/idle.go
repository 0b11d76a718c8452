package cpu

import (
	"slices"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// dropIdle removes the tokens that no derivative of the loss reaches from the packing and from
// everything kept for the backward pass: replies without an advantage, groups whose rewards are
// equal. They would add 0 to the gradient.
func (s *passes) dropIdle() {
	p, b := &s.packing, &s.backbone
	var active []int
	for i := range p.head {
		if s.head.active(p, i) {
			active = append(active, i)
		}
	}
	if len(active) == len(p.head) {
		return
	}
	s.head.keep(p, active)
	before := len(p.tokens)
	if rows := p.keepNeeded(); len(rows) < before {
		for i := range b.work.layers {
			b.keepRows(i, before, rows)
		}
	}
	for i, r := range p.head {
		s.head.space.index[i] = r.row
	}
}

// keepNeeded drops all segments but those with head rows, and their prefixes. It returns the
// remaining rows by their old numbers.
func (p *packing) keepNeeded() (rows []int) {
	wanted := make([]bool, len(p.tokens))
	for _, r := range p.head {
		wanted[r.row] = true
	}
	needed := make([]bool, len(p.segments))
	for i, s := range p.segments {
		needed[i] = slices.Contains(wanted[s.Start:s.Start+s.Len], true)
	}
	for i, s := range slices.Backward(p.segments) { // a prefix comes before the segments that need it
		if needed[i] && s.Prefix >= 0 {
			needed[s.Prefix] = true
		}
	}
	row, place := make([]int32, len(p.tokens)), make([]int, len(p.segments)) // new numbers of rows and segments
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
			p.moveExperts(len(rows), from)
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

// keepRows drops all rows of a layer's activations but some. before is the number of rows until
// now.
func (b *backbone) keepRows(layer, before int, rows []int) {
	a := &b.work.layers[layer]
	if layer < b.recompute { // only the input is kept
		moveRows(b.pool, []kernel.Matrix{a.in}, rows)
		return
	}
	moved := []kernel.Matrix{
		a.in, a.qkv, a.attention, a.mid, kernel.NewMatrix(a.rstd, before, 1), kernel.NewMatrix(a.midRstd, before, 1),
	}
	if b.cfg.PostNorms {
		moved = append(moved, a.output, a.down, kernel.NewMatrix(a.outRstd, before, 1), kernel.NewMatrix(a.downRstd, before, 1))
	}
	attends := !b.cfg.Convolves(layer)
	if attends {
		moved = append(moved, a.lse)
	}
	if b.cfg.QKNorm && attends {
		moved = append(moved, a.raw)
		b.eachHead(func(head, _, _ int, _ bool) { // one block of rows per head
			for i, from := range rows {
				a.headRstd[head*len(rows)+i] = a.headRstd[head*before+from]
			}
		})
	}
	if b.cfg.Sparse(layer) {
		moveRows(b.pool, []kernel.Matrix{a.experts.gateUp}, a.experts.routing.Keep(rows))
	} else {
		moved = append(moved, a.gateUp)
	}
	moveRows(b.pool, moved, rows)
}
