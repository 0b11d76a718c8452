package kernel

import "slices"

// Backward writes the gradients dq, dk, dv of [Attention.Forward] from its inputs, its results out
// and lse, and the gradient dout of out. Shapes are those of Forward; dk and dv are shaped like k
// and v. Backward recomputes the scores, so scratch is linear in the longest segment. The rows of a
// prefix sum over its own queries, then over those of the segments after it, in the order of
// segments. Rows in no segment do not change.
func (a Attention) Backward(pool *Pool, dq, dk, dv, dout, out, lse, q, k, v Matrix, segments []Segment) {
	const what = "Attention.Backward"
	a.checkPacked(what, out, lse, q, k, v, segments)
	dq.checkShape(what+": dq", q.Rows, q.Cols)
	dk.checkShape(what+": dk", k.Rows, k.Cols)
	dv.checkShape(what+": dv", v.Rows, v.Cols)
	dout.checkShape(what+": dout", q.Rows, q.Cols)
	families := families(segments)
	ks := current()
	pool.Run(len(families)*a.KVHeads, func(task int) {
		family, head := families[task/a.KVHeads], task%a.KVHeads
		most := 0
		for _, s := range family {
			g := a.context(dk, dv, segments, s, head)
			clearRows(g.k.own)
			clearRows(g.v.own)
			most = max(most, a.mostKeys(g.prefix+segments[s].Len))
		}
		for _, s := range family {
			seg := segments[s]
			g := gradients{a.context(k, v, segments, s, head), a.context(dk, dv, segments, s, head)}
			for from := 0; from < seg.Len; from += queryBlock {
				rows := min(queryBlock, seg.Len-from)
				b := a.newGradBlock(pool, ks, g, from, rows, most)
				for h := head * a.group(); h < (head+1)*a.group(); h++ {
					view := func(m Matrix) Matrix {
						r := seg.Start + from
						return m.RowRange(r, r+rows).ColRange(h*a.HeadDim, (h+1)*a.HeadDim)
					}
					lseHead := lse.RowRange(seg.Start+from, seg.Start+from+rows).ColRange(h, h+1)
					b.backward(view(dq), view(dout), view(out), view(q), lseHead)
				}
				b.release(pool)
			}
		}
	})
}

// families groups the segments that share key and value rows: a segment without a prefix, followed
// by the segments whose prefix it is. The families with the most work come first, so that none runs
// alone on one core at the end.
func families(segments []Segment) [][]int {
	var out [][]int
	of := make([]int, len(segments))
	for i, s := range segments {
		if s.Prefix < 0 {
			of[i] = len(out)
			out = append(out, []int{i})
		}
	}
	for i, s := range segments {
		if s.Prefix >= 0 {
			f := of[s.Prefix]
			out[f] = append(out[f], i)
		}
	}
	work := func(family []int) (pairs int) { // of queries and keys
		for _, s := range family {
			keys := segments[s].Len
			if segments[s].Prefix >= 0 {
				keys += 2 * segments[segments[s].Prefix].Len
			}
			pairs += segments[s].Len * keys
		}
		return pairs
	}
	slices.SortStableFunc(out, func(a, b []int) int { return work(b) - work(a) })
	return out
}

func clearRows(m Matrix) {
	for i := range m.Rows {
		clear(m.Row(i))
	}
}

// gradients pairs the rows that a segment's queries see with the gradients of these rows.
type gradients struct{ value, grad context }

// gradBlock is a block of queries in the backward pass.
type gradBlock struct {
	*block
	grad      context
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
// sequences of so many tokens, prefix included. The forward pass borrows less. At most one task per
// core runs at once.
func (a Attention) BackwardScratch(tokens int) int {
	keys, wide := roundUp(a.mostKeys(tokens)), roundUp(a.HeadDim)
	return 2*queryBlock*(keys+lanes) + 2*keys*(a.HeadDim+wide) + queryBlock*(a.HeadDim+2*wide)
}

func (a Attention) newGradBlock(pool *Pool, ks *kernels, g gradients, from, rows, most int) *gradBlock {
	b := &gradBlock{block: a.newBlock(pool, ks, g.value, from, rows, most), grad: g.grad}
	b.dp = pool.Borrow(len(b.s))
	b.vt = pool.Borrow(len(b.kt))
	b.kp = pool.Borrow(len(b.vp))
	b.qp = pool.Borrow(queryBlock * roundUp(a.HeadDim))
	b.doutp = pool.Borrow(queryBlock * roundUp(a.HeadDim))
	b.packKeys()
	ks.packPairTransposed(b.vt, b.ctx.v, b.first, b.keys, a.HeadDim)
	packPairRows(b.kp, b.ctx.k, b.first, b.keys, a.HeadDim)
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
func (b *gradBlock) backward(dq, dout, out, q, lse Matrix) {
	b.scores(q)
	width := roundUp(b.keys)
	b.ks.product(operandC{b.dp, b.stride}, rowMajor(dout.Data, dout.Stride), panelMajor(b.vt, b.HeadDim), b.rows, width, b.HeadDim, false)
	for i := range b.rows {
		p := b.row(i)
		b.ks.expSum(&p[0], &p[0], lse.Row(i)[0], width)
		delta := b.ks.dotRow(dout.Row(i), out.Row(i))
		b.ks.softGrad(&b.dp[i*b.stride], &p[0], delta, b.Scale, width)
	}
	b.ks.product(operandC{dq.Data, dq.Stride}, rowMajor(b.dp, b.stride), panelMajor(b.kp, b.keys), b.rows, b.HeadDim, b.keys, false)
	packPairRows(b.qp, rowPair{own: q}, 0, b.rows, b.HeadDim)
	packPairRows(b.doutp, rowPair{own: dout}, 0, b.rows, b.HeadDim)
	b.addTransposed(b.grad.k, b.dp, b.qp)
	b.addTransposed(b.grad.v, b.s, b.doutp)
}

// addTransposed adds leftᵀ·right to the key rows of grad that the block sees: left [rows, stride],
// right [rows, HeadDim] in panels.
func (b *gradBlock) addTransposed(grad rowPair, left, right []float32) {
	for j := 0; j < b.keys; {
		count, m := grad.run(b.first+j, b.keys-j)
		b.ks.product(operandC{m.Data, m.Stride}, colMajor(left[j:], b.stride), panelMajor(right, b.rows), count, b.HeadDim, b.rows, true)
		j += count
	}
}
