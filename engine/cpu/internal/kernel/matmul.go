package kernel

import (
	"fmt"
	"unsafe"
)

const (
	// rowBlock is the most rows of A that one task holds: with kBlock, 72 KiB of a second-level
	// cache.
	rowBlock = 96
	// leastRows is the least number of rows of A for a task when cores share rows, so that each
	// panel of B is used often enough.
	leastRows = 48
	// packLimit bounds the scratch for packed B, in floats, so that it stays in a third-level
	// cache.
	packLimit = 2 << 20
	// smallProduct is the number of multiply-adds below which one core is faster than two.
	smallProduct = 48 << 10
	// taskCost is the cost of handing out a task, in multiply-adds.
	taskCost = 32 << 10
	// leastTask is the least number of multiply-adds that a core takes at a time, if cores do not
	// share rows.
	leastTask = 4 * taskCost
	// readCost is the cost of moving an element of A into a core's cache, in multiply-adds.
	readCost = 16
	// packCost is the cost of packing an element of A, in multiply-adds.
	packCost = 48
	// rangeLimit bounds the range of panels of B that all blocks of rows use before the next range,
	// in floats.
	rangeLimit = 512 << 10
	// maxRanges is the number of ways to divide the panels that cutPanels compares.
	maxRanges = 64
)

// MatMulPacked computes c = a·w, or c += a·w if accumulate: a [m, k], w packed [k, n], c [m, n].
// a may be a transpose; c may not alias a.
func MatMulPacked(pool *Pool, c, a Matrix, w *Packed, accumulate bool) {
	checkProduct("MatMulPacked", c, a, w.K, w.N)
	ks := current()
	if w.int8 != nil {
		ks.int8Product(pool, c, a, w, accumulate)
		return
	}
	if w.pairs != nil && a.Cols%2 == 1 {
		buf := pool.Borrow(a.Rows * (a.Cols + 1))
		defer pool.Return(buf)
		a = withZeros(buf, a)
	}
	pool.split(c.Rows, c.Cols, a.Cols, a.trans, func(i, rows, j, panels int) {
		ks.blockProduct(pool, c, a, w.operand(j), i, rows, j, panels, 0, a.Cols, accumulate)
	})
}

// MatMul computes c = a·b, or c += a·b if accumulate: a [m, k], b [k, n], c [m, n]. a and b may be
// transposes: forward y = x·Wᵀ, dX = dY·W, dW += dYᵀ·X. c may not alias a or b.
func MatMul(pool *Pool, c, a, b Matrix, accumulate bool) {
	checkProduct("MatMul", c, a, b.Rows, b.Cols)
	b.check("MatMul: right operand")
	if w := b.packed; w != nil && b.trans && b.Rows == w.K && b.Cols == w.N {
		MatMulPacked(pool, c, a, w, accumulate)
		return
	}
	ks := current()
	if b.packed == nil && !b.trans && b.Cols%lanes == 0 && c.Rows <= 2*ks.rows {
		pool.split(c.Rows, c.Cols, a.Cols, a.trans, func(i, rows, j, panels int) {
			w := inPlace(b.Data[min(j*lanes, len(b.Data)):], b.Stride)
			ks.blockProduct(pool, c, a, w, i, rows, j, panels, 0, a.Cols, accumulate)
		})
		return
	}
	if !a.trans {
		ks.rangedProduct(pool, c, a, b, accumulate)
		return
	}
	ks.packedProduct(pool, c, a, b, accumulate, false)
}

// packedProduct packs b by chunks of columns and k that fit the scratch, and multiplies chunk by
// chunk. With upper, it leaves out most of the result below the diagonal.
func (ks *kernels) packedProduct(pool *Pool, c, a, b Matrix, accumulate, upper bool) {
	m, n, k := c.Rows, c.Cols, a.Cols
	if m == 0 || n == 0 {
		return
	}
	cols := min(n, packLimit/kBlock&^(lanes-1))
	wide := (cols + lanes - 1) / lanes * lanes
	depth := max(kBlock, packLimit/wide/kBlock*kBlock)
	depth = min(depth, k)
	buf := pool.Borrow(wide * depth)
	defer pool.Return(buf)
	for n0 := 0; n0 < n; n0 += cols {
		part := c.ColRange(n0, min(n, n0+cols))
		right := columns(b, n0, n0+part.Cols)
		for k0 := 0; k0 < k || k0 == 0; k0 += max(depth, 1) {
			kc := min(depth, k-k0)
			pool.runRows((part.Cols+lanes-1)/lanes, kc*lanes, func(from, to int) {
				ks.packPanels(buf[from*kc*lanes:], right, from, to, k0, kc)
			})
			pool.split(m, part.Cols, kc, a.trans, func(i, rows, j, panels int) {
				if skip := (i-n0)/lanes - j; upper && skip > 0 {
					j, panels = j+skip, panels-skip
				}
				if panels <= 0 {
					return
				}
				ks.blockProduct(pool, part, a, panelMajor(buf[j*kc*lanes:], kc), i, rows, j, panels, k0, kc, accumulate || k0 > 0)
			})
		}
	}
}

// ProductScratch returns the most memory in floats that one [MatMul] on so many cores borrows, if
// its largest operand has so many elements.
func ProductScratch(cores, largest int) int {
	return max(min(packLimit, largest)+cores*(rowBlock+maxRows)*kBlock, cores*rangeScratch(largest))
}

// columns returns columns [from, to) of b, which may be a transpose.
func columns(b Matrix, from, to int) Matrix {
	if !b.trans {
		return b.ColRange(from, to)
	}
	return b.T().RowRange(from, to).T()
}

// blockProduct computes rows [i, i+rows) and the given panels from j on of c, over k in [k0,
// k0+kc). b starts at panel j and k0.
func (ks *kernels) blockProduct(pool *Pool, c, a Matrix, b operandB, i, rows, j, panels, k0, kc int, accumulate bool) {
	cols := min(panels*lanes, c.Cols-j*lanes)
	out := operandC{c.Data[i*c.Stride+j*lanes:], c.Stride}
	if !a.trans {
		ks.product(out, rowMajor(a.Data[min(i*a.Stride+k0, len(a.Data)):], a.Stride), b, rows, cols, kc, accumulate)
		return
	}
	if rows <= ks.rows {
		ks.product(out, colMajor(a.Data[min(k0*a.Stride+i, len(a.Data)):], a.Stride), b, rows, cols, kc, accumulate)
		return
	}
	buf := pool.Borrow((rows + ks.rows) * kBlock)
	defer pool.Return(buf)
	if kc == 0 {
		ks.product(out, grouped(buf, ks.rows, 0), b, rows, cols, 0, accumulate)
	}
	for k := 0; k < kc; k += kBlock {
		depth := min(kBlock, kc-k)
		if k > 0 {
			b.p = unsafe.Add(b.p, b.rows(kBlock)*b.ks)
		}
		ks.packGroups(buf, a.Data[(k0+k)*a.Stride+i:], a.Stride, rows, depth)
		ks.product(out, grouped(buf, ks.rows, depth), b, rows, cols, depth, accumulate || k > 0)
	}
}

// split runs an [m, n] product over k as tasks: blocks of rows times ranges of panels. All blocks
// finish a range before the next one. packs says that a task packs its rows first.
func (p *Pool) split(m, n, k int, packs bool, run func(i, rows, j, panels int)) {
	panels := (n + lanes - 1) / lanes
	if m == 0 || panels == 0 {
		return
	}
	if m*n*k <= smallProduct {
		p = nil // run on the caller alone
	}
	rows, width := p.cut(m, panels, k, packs)
	blocks, ranges := (m+rows-1)/rows, (panels+width-1)/width
	if blocks == 1 && !packs { // nothing of B is used twice, so each core reads its own stretch of memory
		unit, most := cutStretch(p.Size(), m, panels, k)
		p.Sweep((panels+unit-1)/unit, most, func(from, to int) {
			run(0, m, from*unit, min(panels, to*unit)-from*unit)
		})
		return
	}
	p.Run(blocks*ranges, func(t int) {
		i, j := t%blocks*rows, t/blocks*width
		run(i, min(rows, m-i), j, min(width, panels-j))
	})
}

// cutStretch returns the number of panels in a unit, and the number of units that a core takes at a
// time: as many as the widest tile has, and as leastTask asks for.
func cutStretch(cores, m, panels, k int) (unit, most int) {
	// An odd panel needs a narrower tile, at 6/7 of the speed. Pairs leave a core idle if they are few.
	unit = 2
	if pairs := (panels + 1) / 2; 7*((panels+cores-1)/cores) < 6*2*((pairs+cores-1)/cores) {
		unit = 1
	}
	wide := max(1<<current().widest(m), leastTask/(lanes*m*max(k, 1)))
	return unit, max(1, wide/unit)
}

// cut chooses the rows and panels of a task.
func (p *Pool) cut(m, panels, k int, packs bool) (rows, width int) {
	blocks := (m + rowBlock - 1) / rowBlock
	if few := 4 * p.Size(); p.Size() > 1 && panels < few {
		blocks = max(blocks, min(few, m/leastRows))
	}
	rows = (m + blocks - 1) / blocks
	rows = (rows + maxRows - 1) / maxRows * maxRows
	return rows, p.cutPanels(min(rows, m), (m+rows-1)/rows, panels, k, packs)
}

// cutPanels returns the width of tasks, in panels, with which the product finishes earliest: it
// balances the cores, avoids tasks too small to pay, and keeps a range of panels in a third-level
// cache for all blocks of rows.
func (p *Pool) cutPanels(rows, blocks, panels, k int, packs bool) (width int) {
	overhead := taskCost
	if blocks > 1 {
		overhead += readCost * rows * k
	}
	if packs {
		overhead += packCost * rows * k
	}
	step := 1
	if rows <= 3 {
		step = 4 // tiles of so few rows are up to four panels wide
	}
	fewest := 1
	if blocks > 1 && !packs {
		fewest = (panels*k*lanes + rangeLimit - 1) / rangeLimit
	}
	least := 0
	for ranges := min(fewest, panels); ranges <= min(fewest+maxRanges, panels); ranges++ {
		w := (panels + ranges*step - 1) / (ranges * step) * step
		tasks := blocks * ((panels + w - 1) / w)
		rounds := (tasks + p.Size() - 1) / p.Size()
		work := w*lanes*rows*k + overhead
		// The last core makes the others wait for half a task on average.
		if cost := rounds*work + work/2; least == 0 || cost < least {
			least, width = cost, w
		}
	}
	return width
}

// checkProduct panics unless c = a·b makes sense for a right operand [k, n].
func checkProduct(what string, c, a Matrix, k, n int) {
	if c.trans || a.Cols != k || c.Rows != a.Rows || c.Cols != n {
		panic(fmt.Sprintf("kernel: %s: [%d, %d] = [%d, %d]·[%d, %d] (result transposed: %t)", what, c.Rows, c.Cols, a.Rows, a.Cols, k, n, c.trans))
	}
	c.check(what + ": result")
	a.check(what + ": left operand")
}
