package kernel

import (
	"fmt"
	"unsafe"
)

// Paged writes out = softmax(Scale·q·kᵀ)·v for queries over pages: q, out [queries, Heads·HeadDim],
// in the order of the plan's views. A query's result does not depend on the others, and has the
// same bits as the result of [Attention.Forward] for that row. Paged reads keys and values in
// place.
func (a Attention) Paged(pool *Pool, out, q Matrix, kv *KVPages, plan *Reading) {
	const what = "Attention.Paged"
	a.checkShape(what)
	out.checkShape(what+": out", len(plan.views), a.Heads*a.HeadDim)
	q.checkShape(what+": q", len(plan.views), a.Heads*a.HeadDim)
	if kv.heads != a.KVHeads || kv.dim != a.HeadDim || int(plan.last) >= kv.pages {
		panic(fmt.Sprintf("kernel: %s: page %d of %d pages of %d heads of %d; want %d heads of %d",
			what, plan.last, kv.pages, kv.heads, kv.dim, a.KVHeads, a.HeadDim))
	}
	ks := current()
	// The heads of a token lie side by side in memory, so one core reads them all.
	pool.Sweep(len(plan.groups)*a.KVHeads, 1, func(from, to int) {
		for task := from; task < to; task++ {
			g := plan.groups[task/a.KVHeads]
			d := decoder{Attention: a, ks: ks, pool: pool, kv: kv, views: plan.views[g.from:g.to], common: g.pages, head: task % a.KVHeads}
			d.run(out.RowRange(g.from, g.to), q.RowRange(g.from, g.to))
		}
	})
}

// decoder computes the attention of some queries' heads to one key-value head. The rows of its
// scores are the queries' heads in order; the columns are the keys from first on, a multiple of 16
// as in [block].
type decoder struct {
	Attention
	ks     *kernels
	pool   *Pool
	kv     *KVPages
	views  []View
	common []int32 // pages that all views begin with, or end within
	head   int
	first  int
	shared int // tokens of the common pages that queries see
	stride int // of s
	width  int // of sum: HeadDim rounded up to whole lanes
	deep   int // of query: HeadDim rounded up to whole words of keys

	query, sum []float32 // [rows, deep] scaled queries, [rows, width] unscaled results
	s          []float32 // [rows, stride] scores, then probabilities
}

func (d *decoder) run(out, q Matrix) {
	longest := 0
	d.first = d.from(0)
	for i, v := range d.views {
		longest, d.first = max(longest, v.Tokens), min(d.first, d.from(i))
	}
	d.first &^= lanes - 1
	d.shared = max(d.first, min(longest, len(d.common)*PageTokens))
	d.stride, d.width = roundUp(longest-d.first)+lanes, roundUp(d.HeadDim)
	rows := len(d.views) * d.group()
	buf := d.pool.Borrow(rows * (2*d.width + d.stride)) // once, because workers share the list of buffers
	defer d.pool.Return(buf)
	d.deep = d.kv.keyRows() * d.kv.per
	d.query, d.sum, d.s = buf[:rows*d.deep], buf[rows*d.width:2*rows*d.width], buf[2*rows*d.width:]
	at := d.head * d.group() * d.HeadDim
	d.scaleQueries(q, at)
	d.eachPart(d.scores)
	inverse := d.query[:rows] // the queries are no longer needed
	for r := range rows {
		inverse[r] = d.softmax(r)
	}
	d.eachPart(d.weightedSum)
	for r := range rows {
		to := out.Row(r / d.group())[at+r%d.group()*d.HeadDim:]
		Scale(to[:d.HeadDim], d.sum[r*d.width:r*d.width+d.HeadDim], inverse[r])
	}
}

// scaleQueries fills query from the columns of q from at on.
func (d *decoder) scaleQueries(q Matrix, at int) {
	if n := d.group() * d.HeadDim; d.deep == d.HeadDim {
		for i := range d.views {
			Scale(d.query[i*n:(i+1)*n], q.Row(i)[at:at+n], d.scale())
		}
		return
	}
	for r := range len(d.views) * d.group() {
		to, from := d.query[r*d.deep:(r+1)*d.deep], q.Row(r / d.group())[at+r%d.group()*d.HeadDim:]
		Scale(to[:d.HeadDim], from[:d.HeadDim], d.scale())
		to[d.HeadDim] = 0
	}
}

// from returns the first key that query i sees.
func (d *decoder) from(i int) int {
	from, _ := d.visible(d.views[i].Tokens - 1)
	return from
}

// softmax turns the scores of a row into probabilities without their common factor, which it
// returns. Keys that the query does not see get 0, even if other queries of the group see them.
func (d *decoder) softmax(r int) (inverse float32) {
	i := r / d.group()
	tokens := d.views[i].Tokens
	row := d.s[r*d.stride:][:roundUp(max(tokens, d.shared)-d.first)]
	maskOutside(row, d.from(i)-d.first, tokens-d.first)
	_, inverse = d.ks.softmaxRow(row)
	return inverse
}

// part is a run of tokens that some rows read: the first tokens of pages, with scores from a column
// on.
type part struct {
	pages          []int32
	tokens, column int
	row, rows      int
	goesOn         bool // the rows have read other parts before
}

// eachPart visits the common pages with all rows, then each query's own pages behind them.
func (d *decoder) eachPart(visit func(p part)) {
	if d.shared > d.first {
		visit(part{d.common[d.first/PageTokens:], d.shared - d.first, 0, 0, len(d.views) * d.group(), false})
	}
	for i, v := range d.views {
		from := max(d.shared, d.from(i)&^(lanes-1))
		if from < v.Tokens {
			visit(part{v.pages()[from/PageTokens:], v.Tokens - from, from - d.first, i * d.group(), d.group(), d.shared > d.first})
		}
	}
}

// scores computes query·kᵀ. Any two pages form the operand of a tile of two panels, and evenly
// spaced pages that of a wider tile. Meanwhile it prefetches the next pages.
func (d *decoder) scores(p part) {
	pages, tiles := p.pages[:(p.tokens+PageTokens-1)/PageTokens], d.kv.tiles(d.ks)
	pageBytes, widest, share := d.kv.keyFloats()*4, d.ks.widest(p.rows), (p.rows+d.ks.rows-1)/d.ks.rows
	for j := 0; j < len(pages); {
		wide := widest
		for 1<<wide > len(pages)-j || !evenlySpaced(pages[j:j+1<<wide]) {
			wide--
		}
		spacing, ahead := 0, 0
		if wide > 0 {
			spacing = int(pages[j+1]-pages[j]) * pageBytes
		}
		next := j + 1<<wide
		if next < len(pages) {
			ahead = int(pages[next]-pages[j]) * pageBytes
		}
		d.eachTile(p, func(row, rows, groups int) {
			tiles[rows][wide](groups, d.kv.keyRows(), unsafe.Pointer(&d.query[row*d.deep]), d.deep*4, 4, rows*d.deep*4,
				unsafe.Pointer(unsafe.SliceData(d.kv.keyPanel(pages[j], d.head))), panelBytes, spacing, ahead, panelBytes/share,
				unsafe.Pointer(&d.s[row*d.stride+p.column+j*PageTokens]), d.stride*4, 0)
		})
		j = next
	}
}

// evenlySpaced reports whether one panel stride leads through all pages.
func evenlySpaced(pages []int32) bool {
	for i := 2; i < len(pages); i++ {
		if pages[i]-pages[i-1] != pages[1]-pages[0] {
			return false
		}
	}
	return true
}

// widest returns the logarithm of the most panels in tiles of m rows.
func (ks *kernels) widest(m int) int {
	rows, _ := ks.tilesFrom(operandA{}, 0, m)
	tiles := &ks.tiles[rows]
	wide := len(tiles) - 1
	for tiles[wide] == nil {
		wide--
	}
	return wide
}

// eachTile cuts a part's rows into tiles, in groups with the same number of rows.
func (d *decoder) eachTile(p part, visit func(row, rows, groups int)) {
	for i := 0; i < p.rows; {
		rows, groups := d.ks.tilesFrom(operandA{}, i, p.rows)
		visit(p.row+i, rows, groups)
		i += rows * groups
	}
}

const (
	// valueBlock is the number of tokens whose values several tiles read in turn from a first-level
	// cache.
	valueBlock = 128
	// valuesAhead is the prefetch distance for values within a run of pages, in tokens.
	valuesAhead = 16
	// shortRun is the most tokens of a run during which the next run is prefetched instead.
	shortRun = 4 * PageTokens
)

// weightedSum adds s·v to sum, one run of pages after the other.
func (d *decoder) weightedSum(p part) {
	for j := 0; j*PageTokens < p.tokens; {
		n := 1
		for (j+n)*PageTokens < p.tokens && p.pages[j+n] == p.pages[j]+int32(n) {
			n++
		}
		tokens, ahead := min(n*PageTokens, p.tokens-j*PageTokens), valuesAhead
		if tokens <= shortRun && (j+n)*PageTokens < p.tokens {
			ahead = int(p.pages[j+n]-p.pages[j]) * PageTokens
		}
		step := tokens
		if p.rows > d.ks.rows {
			step = valueBlock
		}
		for k := 0; k < tokens; k += step {
			d.addValues(p, int(p.pages[j])*PageTokens+k, j*PageTokens+k, min(step, tokens-k), ahead)
		}
		j += n
	}
}

// addValues adds the values of consecutive slots, which hold the part's tokens from the given one
// on. Meanwhile it prefetches values some slots ahead.
func (d *decoder) addValues(p part, slot, token, tokens, ahead int) {
	accumulate := 0
	if p.goesOn || token > 0 {
		accumulate = 1
	}
	stride, widest, tiles := d.kv.valueStride()*4, d.ks.widest(p.rows), d.kv.tiles(d.ks)
	tokens, ahead = (tokens+d.kv.per-1)/d.kv.per, ahead/d.kv.per
	for e := 0; e < d.width; {
		wide := widest
		for lanes<<wide > d.width-e {
			wide--
		}
		d.eachTile(p, func(row, rows, groups int) {
			tiles[rows][wide](groups, tokens, unsafe.Pointer(&d.s[row*d.stride+p.column+token]), d.stride*4, 4, rows*d.stride*4,
				unsafe.Pointer(unsafe.SliceData(d.kv.valueRow(slot, d.head)[e:])), stride, panelBytes, ahead*stride, stride,
				unsafe.Pointer(&d.sum[row*d.width+e]), d.width*4, accumulate)
		})
		e += lanes << wide
	}
}
