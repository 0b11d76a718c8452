package kernel

import (
	"fmt"
	"unsafe"
)

// KV is a run of cached keys and values of one layer: K, V [tokens, KVHeads·HeadDim].
type KV struct{ K, V Matrix }

// Cache is what the newest token of one sequence sees: a shared span, possibly empty, then the sequence's own, whose
// last row is the newest token itself.
type Cache struct{ Shared, Own KV }

// decodePanels is how many panels of 16 keys are transposed at a time.
const decodePanels = 4

// Decode writes out = softmax(Scale·q·kᵀ)·v for one new token per sequence: q, out [sequences, Heads·HeadDim]. A
// sequence's result does not depend on the others and is, bit for bit, what [Attention.Forward] gives for that row.
// Neighbours that share the same span read it together.
func (a Attention) Decode(pool *Pool, out, q Matrix, caches []Cache) {
	a.checkDecode(out, q, caches)
	ks := current()
	groups := a.decodeGroups(caches, len(caches)*a.KVHeads/(4*pool.Size()))
	pool.Run(len(groups)*a.KVHeads, func(task int) {
		g := groups[task/a.KVHeads]
		d := decoder{Attention: a, ks: ks, pool: pool, caches: caches[g.from:g.to], head: task % a.KVHeads}
		d.run(out.RowRange(g.from, g.to), q.RowRange(g.from, g.to))
	})
}

// span is a range of sequences.
type span struct{ from, to int }

// decodeGroups joins neighbours with the same shared rows, at most most of them, and 8.
func (a Attention) decodeGroups(caches []Cache, most int) []span {
	var groups []span
	for i := range caches {
		if n := len(groups) - 1; i > 0 && a.Window == 0 && i-groups[n].from < min(most, 8) && sameSpan(caches[groups[n].from], caches[i]) {
			groups[n].to = i + 1
			continue
		}
		groups = append(groups, span{i, i + 1})
	}
	return groups
}

func sameSpan(a, b Cache) bool {
	same := func(a, b Matrix) bool {
		return a.Rows == b.Rows && a.Stride == b.Stride && unsafe.SliceData(a.Data) == unsafe.SliceData(b.Data)
	}
	return a.Shared.K.Rows > 0 && same(a.Shared.K, b.Shared.K) && same(a.Shared.V, b.Shared.V)
}

// decoder attends with the query heads of some sequences to one key-value head. The rows of its scores are the
// sequences' heads in order, their columns the keys from first on, a multiple of 16 as in [block].
type decoder struct {
	Attention
	ks     *kernels
	pool   *Pool
	caches []Cache
	head   int
	first  int
	stride int // of s

	query, sum []float32 // [rows, HeadDim] scaled queries, unscaled results
	s          []float32 // [rows, stride] scores, then probabilities
	kt         []float32 // panels of transposed keys
}

func (d *decoder) run(out, q Matrix) {
	rows, width := len(d.caches)*d.group(), d.group()*d.HeadDim
	longest := 0
	for i := range d.caches {
		longest = max(longest, d.keys(i))
	}
	from, _ := d.visible(longest - 1)
	d.first = from &^ (lanes - 1)
	d.stride = roundUp(longest-d.first) + 2*lanes // each span writes whole panels
	d.query, d.sum = d.pool.Borrow(rows*d.HeadDim), d.pool.Borrow(rows*d.HeadDim)
	d.s, d.kt = d.pool.Borrow(rows*d.stride), d.pool.Borrow(decodePanels*lanes*d.HeadDim)
	defer d.release()

	for i := range d.caches {
		Scale(d.query[i*width:(i+1)*width], q.Row(i)[d.head*width:(d.head+1)*width], d.Scale)
	}
	d.eachSpan(d.scores)
	inverse := d.query[:rows] // the queries are done with
	for r := range rows {
		keys := d.keys(r/d.group()) - d.first
		row := d.s[r*d.stride : r*d.stride+roundUp(keys)]
		maskOutside(row, from-d.first, keys)
		_, inverse[r] = d.ks.softmaxRow(row)
	}
	d.eachSpan(d.weightedSum)
	for r := range rows {
		at := d.head*width + r%d.group()*d.HeadDim
		Scale(out.Row(r / d.group())[at:at+d.HeadDim], d.sum[r*d.HeadDim:(r+1)*d.HeadDim], inverse[r])
	}
}

func (d *decoder) release() {
	d.pool.Return(d.query)
	d.pool.Return(d.sum)
	d.pool.Return(d.s)
	d.pool.Return(d.kt)
}

// keys is how many tokens sequence i has, its newest included.
func (d *decoder) keys(i int) int { return d.caches[i].Shared.K.Rows + d.caches[i].Own.K.Rows }

// eachSpan visits the shared rows with all rows of scores, then each sequence's own rows with its: this head's columns
// of the rows from first on, and the column of scores where they begin.
func (d *decoder) eachSpan(visit func(kv KV, column, row, rows int)) {
	visible := func(kv KV, from int) KV {
		part := func(m Matrix) Matrix {
			return m.RowRange(from, m.Rows).ColRange(d.head*d.HeadDim, (d.head+1)*d.HeadDim)
		}
		return KV{part(kv.K), part(kv.V)}
	}
	shared := d.caches[0].Shared
	if shared.K.Rows > d.first {
		visit(visible(shared, d.first), 0, 0, len(d.caches)*d.group())
	}
	for i, c := range d.caches {
		visit(visible(c.Own, max(0, d.first-shared.K.Rows)), max(0, shared.K.Rows-d.first), i*d.group(), d.group())
	}
}

// scores computes the columns of s from column on: query·kᵀ.
func (d *decoder) scores(kv KV, column, row, rows int) {
	query := rowMajor(d.query[row*d.HeadDim:], d.HeadDim)
	for j := 0; j < kv.K.Rows; j += decodePanels * lanes {
		n := min(decodePanels*lanes, kv.K.Rows-j)
		d.ks.packPairTransposed(d.kt, rowPair{own: kv.K}, j, n, d.HeadDim)
		c := operandC{d.s[row*d.stride+column+j:], d.stride}
		d.ks.product(c, query, panelMajor(d.kt, d.HeadDim), rows, roundUp(n), d.HeadDim, false)
	}
}

// weightedSum adds s·v to sum, starting it if these are the first keys; it reads whole panels of v where it lies.
func (d *decoder) weightedSum(kv KV, column, row, rows int) {
	c := operandC{d.sum[row*d.HeadDim:], d.HeadDim}
	p := rowMajor(d.s[row*d.stride+column:], d.stride)
	if d.HeadDim%lanes == 0 {
		d.ks.product(c, p, inPlace(kv.V.Data, kv.V.Stride), rows, d.HeadDim, kv.V.Rows, column > 0)
		return
	}
	buf := d.pool.Borrow(kv.V.Rows * roundUp(d.HeadDim))
	defer d.pool.Return(buf)
	packPairRows(buf, rowPair{own: kv.V}, 0, kv.V.Rows, d.HeadDim)
	d.ks.product(c, p, panelMajor(buf, kv.V.Rows), rows, d.HeadDim, kv.V.Rows, column > 0)
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
		if c.Shared.K.Rows > 0 || c.Shared.V.Rows > 0 {
			c.Shared.check(what, c.Shared.K.Rows, a)
		}
	}
}

func (kv KV) check(what string, rows int, a Attention) {
	kv.K.checkShape(what+": keys", rows, a.KVHeads*a.HeadDim)
	kv.V.checkShape(what+": values", rows, a.KVHeads*a.HeadDim)
}
