package kernel

import "fmt"

// KV is a run of cached keys and values of one layer: K, V [tokens, KVHeads·HeadDim].
type KV struct{ K, V Matrix }

// Cache is what the newest token of one sequence sees: a shared span, possibly empty, then the sequence's own, whose
// last row is the newest token itself.
type Cache struct{ Shared, Own KV }

// decodePanels is how many panels of 16 keys are transposed at a time.
const decodePanels = 4

// Decode writes out = softmax(Scale·q·kᵀ)·v for one new token per sequence: q, out [sequences, Heads·HeadDim]. A
// sequence's result does not depend on the others and is, bit for bit, what [Attention.Forward] gives for that row.
func (a Attention) Decode(pool *Pool, out, q Matrix, caches []Cache) {
	a.checkDecode(out, q, caches)
	ks := current()
	pool.Run(len(caches)*a.KVHeads, func(task int) {
		s, head := task/a.KVHeads, task%a.KVHeads
		width := a.group() * a.HeadDim
		rows := func(m Matrix) Matrix { // the group's heads of one sequence, as rows
			return NewMatrix(m.Row(s)[head*width:(head+1)*width], a.group(), a.HeadDim)
		}
		cols := func(m Matrix) Matrix {
			if m.Rows == 0 {
				return Matrix{}
			}
			return m.ColRange(head*a.HeadDim, (head+1)*a.HeadDim)
		}
		c := caches[s]
		k, v := rowPair{cols(c.Shared.K), cols(c.Own.K)}, rowPair{cols(c.Shared.V), cols(c.Own.V)}
		a.decodeHead(pool, ks, rows(out), rows(q), k, v)
	})
}

// decodeHead attends with the query heads q [group, HeadDim] of one sequence to one key-value head.
func (a Attention) decodeHead(pool *Pool, ks *kernels, out, q Matrix, k, v rowPair) {
	from, to := a.visible(k.prefix.Rows + k.own.Rows - 1)
	first := from &^ (lanes - 1)
	keys := to - first
	stride := roundUp(keys) + lanes
	s := pool.Borrow(q.Rows * stride)
	query := pool.Borrow(q.Rows * a.HeadDim)
	kt := pool.Borrow(decodePanels * lanes * a.HeadDim)
	defer pool.Return(s)
	defer pool.Return(query)
	defer pool.Return(kt)
	Scale(query, q.Data[:q.Rows*a.HeadDim], a.Scale)
	for j := 0; j < keys; j += decodePanels * lanes {
		n := min(decodePanels*lanes, keys-j)
		ks.packPairTransposed(kt, k, first+j, n, a.HeadDim)
		ks.product(operandC{s[j:], stride}, rowMajor(query, a.HeadDim), panelMajor(kt, a.HeadDim), q.Rows, roundUp(n), a.HeadDim, false)
	}
	for g := range q.Rows {
		row := s[g*stride : g*stride+roundUp(keys)]
		maskOutside(row, from-first, keys)
		_, query[g] = ks.softmaxRow(row)
	}
	a.weightedSum(pool, ks, out, s, stride, v, first, keys)
	for g := range q.Rows {
		Scale(out.Row(g), out.Row(g), query[g])
	}
}

// weightedSum computes out = s·v over keys [first, first+keys), reading whole panels of v where it lies.
func (a Attention) weightedSum(pool *Pool, ks *kernels, out Matrix, s []float32, stride int, v rowPair, first, keys int) {
	c := operandC{out.Data, out.Stride}
	for j := 0; j < keys; {
		count, m := v.run(first+j, keys-j)
		p := rowMajor(s[j:], stride)
		if a.HeadDim%lanes == 0 {
			ks.product(c, p, inPlace(m.Data, m.Stride), out.Rows, a.HeadDim, count, j > 0)
		} else {
			buf := pool.Borrow(count * roundUp(a.HeadDim))
			packPairRows(buf, rowPair{own: m}, 0, count, a.HeadDim)
			ks.product(c, p, panelMajor(buf, count), out.Rows, a.HeadDim, count, j > 0)
			pool.Return(buf)
		}
		j += count
	}
}

func (a Attention) checkDecode(out, q Matrix, caches []Cache) {
	const what = "Attention.Decode"
	a.checkShape(what)
	out.checkShape(what+": out", len(caches), a.Heads*a.HeadDim)
	q.checkShape(what+": q", len(caches), a.Heads*a.HeadDim)
	for i, c := range caches {
		if c.Own.K.Rows < 1 {
			panic(fmt.Sprintf("kernel: %s: sequence %d has no row for its newest token", what, i))
		}
		c.Own.check(what, c.Own.K.Rows, a)
		if c.Shared.K.Rows > 0 {
			c.Shared.check(what, c.Shared.K.Rows, a)
		}
	}
}

func (kv KV) check(what string, rows int, a Attention) {
	kv.K.checkShape(what+": keys", rows, a.KVHeads*a.HeadDim)
	kv.V.checkShape(what+": values", rows, a.KVHeads*a.HeadDim)
}
