package kernel

import (
	"cmp"
	"slices"
)

// Backward writes the gradients dq, dk, dv of [Attention.Forward] from its inputs, its results out
// and lse, and the gradient dout of out. Shapes are those of Forward; dk and dv are shaped like k
// and v. Backward recomputes the scores, so scratch is linear in the longest sequence. The rows of a
// segment sum over its own queries, then add the sums over those of the segments after it, in the
// order of segments. Rows in no segment do not change.
func (a Attention) Backward(pool *Pool, dq, dk, dv, dout, out, lse, q, k, v Matrix, segments []Segment) {
	const what = "Attention.Backward"
	a.checkPacked(what, out, lse, q, k, v, segments)
	dq.checkShape(what+": dq", q.Rows, q.Cols)
	dk.checkShape(what+": dk", k.Rows, k.Cols)
	dv.checkShape(what+": dv", v.Rows, v.Cols)
	dout.checkShape(what+": dout", q.Rows, q.Cols)
	before, most := beforeEach(segments), 0
	for s, seg := range segments {
		most = max(most, a.mostKeys(before[s]+seg.Len))
	}
	order := byTree(segments, before)
	turns := newTurns(len(order) * a.KVHeads)
	ks := current()
	pool.Run(len(order)*a.KVHeads, func(task int) {
		s, head := order[task/a.KVHeads], task%a.KVHeads
		seg := segments[s]
		ctx := context{a.columns(k, head), a.columns(v, head), segments, s, before[s]}
		g := a.newGradients(pool, &ctx, a.columns(dk, head), a.columns(dv, head), most)
		for from := 0; from < seg.Len; from += queryBlock {
			rows := min(queryBlock, seg.Len-from)
			b := a.newGradBlock(pool, ks, ctx, from, rows, most)
			for h := head * a.group(); h < (head+1)*a.group(); h++ {
				view := func(m Matrix) Matrix { return a.columns(m.RowRange(seg.Start+from, seg.Start+from+rows), h) }
				lseHead := lse.RowRange(seg.Start+from, seg.Start+from+rows).ColRange(h, h+1)
				b.backward(g, view(dq), view(dout), view(out), view(q), lseHead)
			}
			b.release(pool)
		}
		if seg.Prefix >= 0 { // the task before is of the same tree
			turns.await(task - a.KVHeads)
			g.add(&ctx)
		}
		turns.end(task)
		g.release(pool)
	})
}

// byTree orders the segments by the tree that they belong to. The trees with the most work come
// first, so that none runs alone on one core at the end.
func byTree(segments []Segment, before []int) []int {
	order, root, work := make([]int, len(segments)), make([]int, len(segments)), make([]int, len(segments))
	for i, s := range segments {
		order[i], root[i] = i, i
		if s.Prefix >= 0 {
			root[i] = root[s.Prefix]
		}
		work[root[i]] += s.Len * (2*before[i] + s.Len) // pairs of queries and keys, doubled
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(work[root[b]], work[root[a]]), cmp.Compare(root[a], root[b]))
	})
	return order
}

// gradients are the gradients of the keys and values that a segment's queries see: rows of dk and
// dv for its own, sums to be added to such rows for those of its prefixes.
type gradients struct {
	dk, dv Matrix // [rows, HeadDim] of all segments
	k, v   gradient
	first  int // token that the first sum belongs to
}

// gradient is the gradient of keys or values.
type gradient struct{ prefix, own Matrix }

// newGradients returns gradients of 0. It borrows the memory of the most keys, so that the next
// segment can reuse it.
func (a Attention) newGradients(pool *Pool, c *context, dk, dv Matrix, most int) *gradients {
	from, _ := a.visible(c.before)
	g := &gradients{dk: dk, dv: dv, first: from &^ (lanes - 1)}
	seg, sums := c.segments[c.own], c.before-g.first
	take := func(m Matrix) gradient {
		return gradient{NewMatrix(pool.Borrow(roundUp(most)*a.HeadDim), sums, a.HeadDim), m.RowRange(seg.Start, seg.Start+seg.Len)}
	}
	g.k, g.v = take(dk), take(dv)
	for _, m := range []Matrix{g.k.prefix, g.k.own, g.v.prefix, g.v.own} {
		for i := range m.Rows {
			clear(m.Row(i))
		}
	}
	return g
}

// add adds the sums to the prefixes' rows.
func (g *gradients) add(c *context) {
	c.eachRun(g.first, c.before-g.first, func(at, count, row int) {
		for i := range count {
			AddTo(g.dk.Row(row+i), g.k.prefix.Row(at+i))
			AddTo(g.dv.Row(row+i), g.v.prefix.Row(at+i))
		}
	})
}

func (g *gradients) release(pool *Pool) {
	pool.Return(g.k.prefix.Data)
	pool.Return(g.v.prefix.Data)
}

// gradBlock is a block of queries in the backward pass.
type gradBlock struct {
	*block
	dp        []float32 // [rows, stride] gradient of the probabilities, then of the scores
	vt, kp    []float32 // values transposed, keys, in panels
	qp, doutp []float32 // queries and output gradients in panels
}

// mostKeys returns the most keys that a block of queries sees in sequences of so many tokens.
func (a Attention) mostKeys(tokens int) int {
	if a.Window > 0 {
		return min(tokens, a.Window+queryBlock+lanes)
	}
	return tokens
}

// BackwardScratch returns the memory in floats that one task of [Attention.Backward] borrows for
// sequences of so many tokens. The forward pass borrows less. At most one task per
// core runs at once.
func (a Attention) BackwardScratch(tokens int) int {
	keys, wide := roundUp(a.mostKeys(tokens)), roundUp(a.HeadDim)
	return 2*queryBlock*(keys+lanes) + 2*keys*(2*a.HeadDim+wide) + queryBlock*(a.HeadDim+2*wide)
}

func (a Attention) newGradBlock(pool *Pool, ks *kernels, ctx context, from, rows, most int) *gradBlock {
	b := &gradBlock{block: a.newBlock(pool, ks, ctx, from, rows, most)}
	b.dp = pool.Borrow(len(b.s))
	b.vt = pool.Borrow(len(b.kt))
	b.kp = pool.Borrow(len(b.vp))
	b.qp = pool.Borrow(queryBlock * roundUp(a.HeadDim))
	b.doutp = pool.Borrow(queryBlock * roundUp(a.HeadDim))
	b.packKeys()
	b.ctx.packTransposed(ks, b.vt, b.ctx.v, b.first, b.keys, a.HeadDim)
	b.ctx.packRows(ks, b.kp, b.ctx.k, b.first, b.keys, a.HeadDim)
	return b
}

func (b *gradBlock) release(pool *Pool) {
	b.block.release(pool)
	pool.Return(b.dp)
	pool.Return(b.vt)
	pool.Return(b.kp)
	pool.Return(b.qp)
	pool.Return(b.doutp)
}

// backward handles one query head: with p = exp(s - lse) and dp = dout·vᵀ, ds = p·(dp -
// dout·out)·Scale, then dq = ds·k, dk += dsᵀ·q, dv += pᵀ·dout (Dao et al. 2022, appendix B).
func (b *gradBlock) backward(g *gradients, dq, dout, out, q, lse Matrix) {
	b.scores(q)
	width := roundUp(b.keys)
	b.ks.product(operandC{b.dp, b.stride}, rowMajor(dout.Data, dout.Stride), panelMajor(b.vt, b.HeadDim), b.rows, width, b.HeadDim, false)
	for i := range b.rows {
		p := b.row(i)
		b.ks.expSum(&p[0], &p[0], lse.Row(i)[0], width)
		delta := b.ks.dotRow(dout.Row(i), out.Row(i))
		b.ks.softGrad(&b.dp[i*b.stride], &p[0], delta, b.scale(), width)
	}
	b.ks.product(operandC{dq.Data, dq.Stride}, rowMajor(b.dp, b.stride), panelMajor(b.kp, b.keys), b.rows, b.HeadDim, b.keys, false)
	b.ks.packRows(b.qp, q.Data, q.Stride, b.HeadDim, b.rows, b.rows*lanes)
	b.ks.packRows(b.doutp, dout.Data, dout.Stride, b.HeadDim, b.rows, b.rows*lanes)
	b.addTransposed(g.k, g.first, b.dp, b.qp)
	b.addTransposed(g.v, g.first, b.s, b.doutp)
}

// addTransposed adds leftᵀ·right to the rows of g of the keys that the block sees: left [rows,
// stride], right [rows, HeadDim] in panels. first is the token of the first row of g.prefix.
func (b *gradBlock) addTransposed(g gradient, first int, left, right []float32) {
	add := func(key int, m Matrix) {
		b.ks.product(operandC{m.Data, m.Stride}, colMajor(left[key:], b.stride), panelMajor(right, b.rows), m.Rows, b.HeadDim, b.rows, true)
	}
	shared := max(0, b.ctx.before-b.first) // keys of prefixes
	if shared > 0 {
		add(0, g.prefix.RowRange(b.first-first, b.first-first+shared))
	}
	own := b.first + shared - b.ctx.before
	add(shared, g.own.RowRange(own, own+b.keys-shared))
}
