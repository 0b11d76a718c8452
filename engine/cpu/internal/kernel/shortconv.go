package kernel

import "fmt"

// ShortConv is a causal convolution of each channel with taps of its own, between two gates (LFM2): out = C·Σⱼ taps[j]·z[t−L+1+j]
// with z = B·x. Rows have B, C and x side by side. A sum is one chain of fused multiply-adds in time order, from 0, so a token has
// the same bits in a row, behind a shared prefix and in a step of its own.
type ShortConv struct {
	Taps Matrix // [L, channels]; the last row is for the token itself
}

// MostTaps bounds the taps of a [ShortConv].
const MostTaps = 16

// NewShortConv returns a convolution whose taps are weight [channels, L], as files have them. They are copied to space.
func NewShortConv(space, weight []float32, channels int) ShortConv {
	taps := len(weight) / max(1, channels)
	if len(weight) != taps*channels || taps < 1 || taps > MostTaps {
		panic(fmt.Sprintf("kernel: NewShortConv: %d weights of %d channels", len(weight), channels))
	}
	c := ShortConv{NewMatrix(space, taps, channels)}
	c.Taps.check("NewShortConv: space")
	for j := range taps {
		row := c.Taps.Row(j)
		for i := range row {
			row[i] = weight[i*taps+j]
		}
	}
	return c
}

// Forward writes out [rows, channels] for rows of B, C and x, given the segments of which they consist, one after the other. It
// fills z, which has the shape of out.
func (c ShortConv) Forward(pool *Pool, out, z, bcx Matrix, segments []Segment) {
	n := c.Taps.Cols
	out.checkShape("ShortConv.Forward: out", bcx.Rows, n)
	z.checkShape("ShortConv.Forward: z", bcx.Rows, n)
	bcx.checkShape("ShortConv.Forward: bcx", bcx.Rows, 3*n)
	ks := current()
	pool.runRows(bcx.Rows, n, func(from, to int) { ks.gateInputs(z, bcx, from, to, 0, n) })
	pool.runRows(bcx.Rows, c.Taps.Rows*n, func(from, to int) {
		for p := cursorAt(segments, from); p.row < to; p.next() {
			c.sum(ks, out.Row(p.row), func(back int) []float32 { return p.before(z, back) })
			ks.scaleMulRow(out.Row(p.row), out.Row(p.row), bcx.Row(p.row)[n:2*n], 1)
		}
	})
}

// Paged stores B·x of rows of B, C and x at their slots of pages [tokens, channels], and writes out [rows, channels]. A row reads
// the tokens before its own where its view has them, and rows of the same call may be among these.
func (c ShortConv) Paged(pool *Pool, out, bcx, pages Matrix, slots []int32, views []View) {
	n := c.Taps.Cols
	out.checkShape("ShortConv.Paged: out", len(slots), n)
	bcx.checkShape("ShortConv.Paged: bcx", len(slots), 3*n)
	pages.checkShape("ShortConv.Paged: pages", pages.Rows, n)
	checkViews(pages, slots, views)
	ks := current()
	pool.runRows(bcx.Rows, n, func(from, to int) {
		for i := from; i < to; i++ {
			row := bcx.Row(i)
			ks.scaleMulRow(pages.Row(int(slots[i])), row[2*n:], row[:n], 1)
		}
	})
	pool.runRows(bcx.Rows, c.Taps.Rows*n, func(from, to int) {
		for i := from; i < to; i++ {
			c.sum(ks, out.Row(i), func(back int) []float32 {
				at := views[i].Tokens - 1 - back
				if at < 0 {
					return nil
				}
				return pages.Row(int(views[i].Pages[at/PageTokens])*PageTokens + at%PageTokens)
			})
			ks.scaleMulRow(out.Row(i), out.Row(i), bcx.Row(i)[n:2*n], 1)
		}
	})
}

func checkViews(pages Matrix, slots []int32, views []View) {
	if len(views) != len(slots) {
		panic(fmt.Sprintf("kernel: ShortConv.Paged: %d views of %d rows", len(views), len(slots)))
	}
	for i, slot := range slots {
		if slot < 0 || int(slot) >= pages.Rows || views[i].Tokens < 1 {
			panic(fmt.Sprintf("kernel: ShortConv.Paged: row %d goes to slot %d of %d and sees %d tokens", i, slot, pages.Rows, views[i].Tokens))
		}
	}
}

// sum writes the sums of a token. before returns z of the token so many places before it; nil if there is none.
func (c ShortConv) sum(ks *kernels, out []float32, before func(back int) []float32) {
	clear(out)
	for j := range c.Taps.Rows {
		if z := before(c.Taps.Rows - 1 - j); z != nil {
			ks.mulAddRow(out, c.Taps.Row(j), z, 1)
		}
	}
}

// gateInputs writes columns [from, to) of z = B·x for some rows.
func (ks *kernels) gateInputs(z, bcx Matrix, first, last, from, to int) {
	n := bcx.Cols / 3
	for i := first; i < last; i++ {
		row := bcx.Row(i)
		ks.scaleMulRow(z.Row(i)[from:to], row[2*n+from:2*n+to], row[from:to], 1)
	}
}

// Backward writes the gradient with respect to B, C and x to dbcx [rows, 3·channels], given that with respect to out. It adds the
// gradient of the weight to dweight [channels, L], unless that is nil. Rows add to the tokens that they read in increasing order.
func (c ShortConv) Backward(pool *Pool, dbcx Matrix, dweight []float32, dout, bcx Matrix, segments []Segment) {
	n, taps := c.Taps.Cols, c.Taps.Rows
	dbcx.checkShape("ShortConv.Backward: dbcx", bcx.Rows, 3*n)
	bcx.checkShape("ShortConv.Backward: bcx", bcx.Rows, 3*n)
	dout.checkShape("ShortConv.Backward: dout", bcx.Rows, n)
	if dweight != nil {
		checkLen("ShortConv.Backward: dweight", dweight, taps*n)
	}
	ks := current()
	pool.columnBlocks(bcx.Rows, n, func(from, to int) {
		width := to - from
		space := pool.Borrow((taps + 1) * width)
		defer pool.Return(space)
		sum, dtaps := space[:width], NewMatrix(space[width:], taps, width)
		clear(dtaps.Data[:taps*width])
		c.backColumns(ks, dbcx, dtaps, sum, dout, bcx, segments, from, to)
		for j := range taps {
			for i, d := range dtaps.Row(j) {
				if dweight != nil {
					dweight[(from+i)*taps+j] += d
				}
			}
		}
	})
}

// backColumns is Backward for some channels. Until it ends, dbcx has z in place of dB, and the gradient with respect to z in place
// of dx.
func (c ShortConv) backColumns(ks *kernels, dbcx, dtaps Matrix, sum []float32, dout, bcx Matrix, segments []Segment, from, to int) {
	n := c.Taps.Cols
	z, dz := dbcx.ColRange(from, to), dbcx.ColRange(2*n+from, 2*n+to)
	ks.gateInputs(dbcx.ColRange(0, n), bcx, 0, bcx.Rows, from, to)
	for i := range dz.Rows {
		clear(dz.Row(i))
	}
	taps := c.Taps.ColRange(from, to)
	for p := cursorAt(segments, 0); p.row < bcx.Rows; p.next() {
		ShortConv{taps}.sum(ks, sum, func(back int) []float32 { return p.before(z, back) })
		d := dout.Row(p.row)[from:to]
		ks.scaleMulRow(dbcx.Row(p.row)[n+from:n+to], d, sum, 1)
		ks.scaleMulRow(sum, d, bcx.Row(p.row)[n+from:n+to], 1)
		for j := range taps.Rows {
			if at := p.rowBefore(taps.Rows - 1 - j); at >= 0 {
				ks.mulAddRow(dz.Row(at), sum, taps.Row(j), 1)
				ks.mulAddRow(dtaps.Row(j), sum, z.Row(at), 1)
			}
		}
	}
	for i := range dz.Rows {
		row := bcx.Row(i)
		ks.scaleMulRow(z.Row(i), dz.Row(i), row[2*n+from:2*n+to], 1)
		ks.scaleMulRow(dz.Row(i), dz.Row(i), row[from:to], 1)
	}
}

// ShortConvScratch returns the floats that a layer borrows at most, the taps included.
func ShortConvScratch(channels, taps, cores int) int {
	return taps*channels + (taps+1)*max(channels, columnBlock*cores)
}

// cursor is a row of segments that lie one after the other.
type cursor struct {
	segments []Segment
	segment  int
	row      int
}

// cursorAt returns the cursor of a row.
func cursorAt(segments []Segment, row int) cursor {
	p := cursor{segments, 0, row}
	p.settle()
	return p
}

// next goes to the next row.
func (p *cursor) next() {
	p.row++
	p.settle()
}

func (p *cursor) settle() {
	for p.segment < len(p.segments) && p.row >= p.segments[p.segment].Start+p.segments[p.segment].Len {
		p.segment++
	}
}

// rowBefore returns the row of the token so many places before the cursor's own; -1 if there is none.
func (p *cursor) rowBefore(back int) int {
	s := p.segments[p.segment]
	for back -= p.row - s.Start; back > 0; back -= s.Len {
		if s.Prefix < 0 {
			return -1
		}
		s = p.segments[s.Prefix]
	}
	return s.Start - back
}

// before returns the row of z that rowBefore names; nil if there is none.
func (p *cursor) before(z Matrix, back int) []float32 {
	if at := p.rowBefore(back); at >= 0 {
		return z.Row(at)
	}
	return nil
}
