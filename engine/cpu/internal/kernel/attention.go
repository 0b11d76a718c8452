package kernel

import (
	"fmt"
	"math"
)

// Attention is the shape of causal grouped-query attention (Vaswani et al. 2017; Ainslie et al.
// 2023): query heads g·h … g·h+g-1 read key-value head h, g = Heads/KVHeads.
type Attention struct {
	Heads, KVHeads int
	HeadDim        int
	Scale          float32 // of the scores; 0 means 1/√HeadDim
	Window         int     // a query sees itself and the Window-1 tokens before it; 0 means all
}

// Segment is a run of consecutive tokens in rows [Start, Start+Len) of packed arrays. Its queries
// see what the last query of the segment with index Prefix sees, as the tokens before them, and
// then their own segment up to themselves. So segments form trees, and a path from a root is a
// sequence.
type Segment struct {
	Start, Len int
	Prefix     int // index of the segment before it, less than its own; -1 for none
}

// queryBlock is the number of rows of a segment in one task. They share the packed keys and values.
const queryBlock = 64

// Forward writes out = softmax(Scale·q·kᵀ)·v for every row of every segment, and the log of the
// softmax's denominator to lse. q, out [rows, Heads·HeadDim]; k, v [rows, KVHeads·HeadDim]; lse
// [rows, Heads]. A row's result depends on the rows it sees alone, bit for bit, and equals
// [Attention.Paged]'s. Scratch is linear in the longest segment.
func (a Attention) Forward(pool *Pool, out, lse, q, k, v Matrix, segments []Segment) {
	a.checkPacked("Attention.Forward", out, lse, q, k, v, segments)
	before := beforeEach(segments)
	type task struct{ segment, from, head int }
	var tasks []task
	for s, seg := range segments {
		for from := 0; from < seg.Len; from += queryBlock {
			for h := range a.KVHeads {
				tasks = append(tasks, task{s, from, h})
			}
		}
	}
	ks := current()
	// The last blocks of a segment see the most keys: start with them.
	pool.Run(len(tasks), func(i int) {
		t := tasks[len(tasks)-1-i]
		seg := segments[t.segment]
		ctx := context{a.columns(k, t.head), a.columns(v, t.head), segments, t.segment, before[t.segment]}
		b := a.newBlock(pool, ks, ctx, t.from, min(queryBlock, seg.Len-t.from), 0)
		defer b.release(pool)
		row := seg.Start + t.from
		b.packKeys()
		b.packValues()
		for h := t.head * a.group(); h < (t.head+1)*a.group(); h++ {
			b.scores(a.columns(q.RowRange(row, row+b.rows), h))
			b.attend(a.columns(out.RowRange(row, row+b.rows), h), lse.RowRange(row, row+b.rows).ColRange(h, h+1))
		}
	})
}

// scale returns the factor of the scores.
func (a Attention) scale() float32 {
	if a.Scale != 0 {
		return a.Scale
	}
	return float32(1 / math.Sqrt(float64(a.HeadDim)))
}

// group returns the number of query heads per key-value head.
func (a Attention) group() int { return a.Heads / a.KVHeads }

// columns returns the columns of a head.
func (a Attention) columns(m Matrix, head int) Matrix {
	return m.ColRange(head*a.HeadDim, (head+1)*a.HeadDim)
}

// visible returns the range of keys that the query at position pos sees, counted from the first
// prefix's first.
func (a Attention) visible(pos int) (from, to int) {
	if a.Window > 0 {
		from = max(0, pos-a.Window+1)
	}
	return from, pos + 1
}

// block is a block of queries of one segment with the keys that any of them sees. The key range
// starts at a multiple of 16, so that a key's lane, and so the order of the softmax's sums, does
// not depend on the block.
type block struct {
	Attention
	ks          *kernels
	ctx         context
	pos, rows   int // first query's position, number of queries
	first, keys int // range of keys
	room        int // number of keys that fit the memory
	stride      int // of s: the keys padded to whole lanes, plus one line against cache conflicts

	s      []float32 // [rows, stride] scores, then probabilities
	kt, vp []float32 // keys transposed, values, in panels
	query  []float32 // [rows, HeadDim] scaled queries
}

// newBlock borrows the memory of a block, and at least that of a full block with the most keys, so
// that the next blocks can reuse it.
func (a Attention) newBlock(pool *Pool, ks *kernels, ctx context, from, rows, most int) *block {
	b := &block{Attention: a, ks: ks, ctx: ctx, pos: ctx.before + from, rows: rows}
	b.first, _ = a.visible(b.pos)
	b.first &^= lanes - 1
	b.keys = b.pos + rows - b.first
	b.stride = roundUp(b.keys) + lanes
	b.room = max(roundUp(b.keys), roundUp(most))
	if most > 0 {
		rows = queryBlock
	}
	b.s = pool.Borrow(rows * (b.room + lanes))
	b.kt = pool.Borrow(b.room * a.HeadDim)
	b.vp = pool.Borrow(b.room * roundUp(a.HeadDim))
	b.query = pool.Borrow(rows * a.HeadDim)
	return b
}

func (b *block) release(pool *Pool) {
	pool.Return(b.s)
	pool.Return(b.kt)
	pool.Return(b.vp)
	pool.Return(b.query)
}

func (b *block) packKeys() { b.ctx.packTransposed(b.ks, b.kt, b.ctx.k, b.first, b.keys, b.HeadDim) }

func (b *block) packValues() { b.ctx.packRows(b.ks, b.vp, b.ctx.v, b.first, b.keys, b.HeadDim) }

// scores computes s = Scale·q·kᵀ, or -Inf if a query does not see a key.
func (b *block) scores(q Matrix) {
	for i := range b.rows {
		Scale(b.query[i*b.HeadDim:(i+1)*b.HeadDim], q.Row(i), b.scale())
	}
	b.ks.product(operandC{b.s, b.stride}, rowMajor(b.query, b.HeadDim), panelMajor(b.kt, b.HeadDim), b.rows, roundUp(b.keys), b.HeadDim, false)
	for i := range b.rows {
		from, to := b.visible(b.pos + i)
		maskOutside(b.row(i), from-b.first, to-b.first)
	}
}

// row returns the scores of query i, padded to whole lanes.
func (b *block) row(i int) []float32 { return b.s[i*b.stride : i*b.stride+roundUp(b.keys)] }

// attend turns scores into out [rows, HeadDim] and lse [rows, 1].
func (b *block) attend(out, lse Matrix) {
	var inverse [queryBlock]float32
	for i := range b.rows {
		lse.Row(i)[0], inverse[i] = b.ks.softmaxRow(b.row(i))
	}
	b.ks.product(operandC{out.Data, out.Stride}, rowMajor(b.s, b.stride), panelMajor(b.vp, b.keys), b.rows, b.HeadDim, b.keys, false)
	for i := range b.rows {
		Scale(out.Row(i), out.Row(i), inverse[i])
	}
}

// softmaxRow replaces x, whole lanes, by exp(x - max x) and returns ln Σ eˣ and the inverse of the
// sum.
func (ks *kernels) softmaxRow(x []float32) (lse, inverse float32) {
	m := ks.max(&x[0], len(x))
	sum := ks.expSum(&x[0], &x[0], m, len(x))
	return m + float32(math.Log(float64(sum))), 1 / sum
}

// maskOutside writes -Inf outside [from, to).
func maskOutside(x []float32, from, to int) {
	minusInf := float32(math.Inf(-1))
	for j := range min(max(from, 0), len(x)) {
		x[j] = minusInf
	}
	for j := to; j < len(x); j++ {
		x[j] = minusInf
	}
}

// roundUp rounds n up to whole lanes.
func roundUp(n int) int { return (n + lanes - 1) &^ (lanes - 1) }

func (a Attention) checkShape(what string) {
	if a.KVHeads <= 0 || a.Heads <= 0 || a.Heads%a.KVHeads != 0 || a.HeadDim <= 0 {
		panic(fmt.Sprintf("kernel: %s: %d heads, %d key-value heads, head dimension %d", what, a.Heads, a.KVHeads, a.HeadDim))
	}
}

// checkPacked panics unless the arrays' shapes fit each other and the segments lie within them.
func (a Attention) checkPacked(what string, out, lse, q, k, v Matrix, segments []Segment) {
	a.checkShape(what)
	out.checkShape(what+": out", q.Rows, a.Heads*a.HeadDim)
	lse.checkShape(what+": lse", q.Rows, a.Heads)
	q.checkShape(what+": q", q.Rows, a.Heads*a.HeadDim)
	k.checkShape(what+": k", q.Rows, a.KVHeads*a.HeadDim)
	v.checkShape(what+": v", q.Rows, a.KVHeads*a.HeadDim)
	for i, s := range segments {
		if s.Start < 0 || s.Len < 0 || s.Start+s.Len > q.Rows || s.Prefix < -1 || s.Prefix >= i {
			panic(fmt.Sprintf("kernel: %s: segment %d %+v of %d rows", what, i, s, q.Rows))
		}
	}
}
