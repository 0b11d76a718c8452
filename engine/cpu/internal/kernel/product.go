package kernel

import (
	"math/bits"
	"sync"
	"unsafe"
)

// kBlock is the number of k in one tile call: a B panel of 16 columns, 12 KiB, the next panel and
// the rows of A fit a 32 KiB first-level cache. Blocking does not change results: the next block
// continues from the sums in C.
const kBlock = 192

// streamBlock is the number of k in one tile call if the rows of A form one tile. Nothing of B is
// then used twice, and a longer run keeps the panels streaming from memory; the block only bounds
// the time of one call.
const streamBlock = 2048

// streamAhead is the prefetch distance of such a run, in bytes of each panel.
const streamAhead = 2048

// residentA is the largest size of A, in floats, that stays in a second-level cache. The product
// then reads each panel of B from start to end, which memory streams best, instead of block by
// block.
const residentA = 84 << 10

const panelBytes = lanes * 4

// operandA is the left operand of a product: element (i, k) is at p + i*rows + k*ks bytes. With a
// group size, rows are packed by groups of one tile, and row i is at p + i/group*panel +
// i%group*rows.
type operandA struct {
	p            unsafe.Pointer
	rows, ks     int
	group, panel int
}

// operandB is the right operand in panels of 16 columns: element (k, 16p+j) is at p + k*ks +
// p*panel + j elements. Of pairs, ks is the distance between rows, which hold two k; a product then
// takes an even number of k.
type operandB struct {
	p         unsafe.Pointer
	ks, panel int
	pairs     bool
}

// rows returns how many rows of b hold so many k.
func (b operandB) rows(k int) int { return k / b.perRow() }

// perRow returns how many k a row of b holds.
func (b operandB) perRow() int {
	if b.pairs {
		return 2
	}
	return 1
}

// operandC is the result, row-major with ld elements from row to row.
type operandC struct {
	p  []float32
	ld int
}

// rowMajor returns the operand A[m, k] stored as [m, k].
func rowMajor(a []float32, ld int) operandA {
	return operandA{p: unsafe.Pointer(unsafe.SliceData(a)), rows: ld * 4, ks: 4}
}

// colMajor returns the operand A[m, k] stored as [k, m].
func colMajor(a []float32, ld int) operandA {
	return operandA{p: unsafe.Pointer(unsafe.SliceData(a)), rows: 4, ks: ld * 4}
}

// grouped returns the operand A[m, k] packed by groups of rows; depth is the number of k packed.
func grouped(a []float32, group, depth int) operandA {
	return operandA{p: unsafe.Pointer(unsafe.SliceData(a)), rows: 4, ks: group * 4, group: group, panel: depth * group * 4}
}

// panelMajor returns the operand B[k, n] packed into panels; depth is the number of k packed.
func panelMajor(b []float32, depth int) operandB {
	return operandB{p: unsafe.Pointer(unsafe.SliceData(b)), ks: panelBytes, panel: depth * panelBytes}
}

// inPlace returns the operand B[k, n] stored row-major; n must be a multiple of 16.
func inPlace(b []float32, ld int) operandB {
	return operandB{p: unsafe.Pointer(unsafe.SliceData(b)), ks: ld * 4, panel: panelBytes}
}

// at returns the address of row i.
func (a operandA) at(i int) unsafe.Pointer {
	if a.group == 0 {
		return unsafe.Add(a.p, i*a.rows)
	}
	return unsafe.Add(a.p, i/a.group*a.panel+i%a.group*a.rows)
}

// tilesFrom divides rows [i, m) into tiles as evenly as possible: it returns the number of groups
// that come next, and their rows.
func (ks *kernels) tilesFrom(a operandA, i, m int) (rows, groups int) {
	left := m - i
	if a.group != 0 {
		if left < a.group {
			return left, 1
		}
		return a.group, left / a.group
	}
	if left <= ks.rows {
		return left, 1
	}
	tiles := (left + ks.rows - 1) / ks.rows
	rows = (left + tiles - 1) / tiles
	return rows, tiles - (rows*tiles - left)
}

// groupStride returns the distance between groups of so many rows, in bytes.
func (a operandA) groupStride(rows int) int {
	if a.group != 0 {
		return a.panel
	}
	return rows * a.rows
}

// product computes C[m, n] = A·B, added to C if accumulate, on the calling goroutine.
func (ks *kernels) product(c operandC, a operandA, b operandB, m, n, k int, accumulate bool) {
	ks.productAhead(c, a, b, m, n, k, accumulate, nil)
}

// productAhead does what product does, and prefetches rows if A stays in a second-level cache.
func (ks *kernels) productAhead(c operandC, a operandA, b operandB, m, n, k int, accumulate bool, ahead *rowsAhead) {
	if k == 0 && !accumulate {
		for i := range m {
			clear(c.p[i*c.ld : i*c.ld+n])
		}
	}
	step := kBlock
	if m <= ks.rows {
		step = streamBlock
	}
	if m*k <= residentA {
		for j := 0; j < n; {
			cols := ks.groupColumns(a, m, n-j)
			for k0, kc := 0, 0; k0 < k; k0 += kc {
				if kc = min(step, k-k0); m <= ks.rows {
					kc = untilTurn(k-k0, kc, streamAhead/b.ks*b.perRow())
				}
				block := ks.block(c, a, b, k0, kc, accumulate)
				block.ahead = ahead
				if block.next = block.kc * b.ks; k0+kc == k {
					block.next = cols/lanes*b.panel - b.rows(k0)*b.ks
				} else if m <= ks.rows {
					block.next = streamAhead
				}
				block.panels(j, cols, m)
			}
			j += cols
		}
		return
	}
	for k0 := 0; k0 < k; k0 += step {
		block := ks.block(c, a, b, k0, min(step, k-k0), accumulate)
		for j := 0; j < n; {
			cols := ks.groupColumns(a, m, n-j)
			if block.next = cols / lanes * b.panel; m <= ks.rows {
				block.next = streamAhead
			}
			block.panels(j, cols, m)
			j += cols
		}
	}
}

// untilTurn returns how many k the next tile call takes, of those that are left in a group of panels. The
// last ones get a call of their own, which prefetches the beginning of the next panels.
func untilTurn(left, most, ahead int) int {
	if left <= most && left > 2*ahead {
		return left - ahead
	}
	return most
}

// groupColumns returns the number of columns, out of left, that the tiles of m rows take at a time:
// a power of two of whole panels, or the columns of the last, partial panel.
func (ks *kernels) groupColumns(a operandA, m, left int) int {
	if left < lanes {
		return left
	}
	rows, _ := ks.tilesFrom(a, 0, m)
	tiles := &ks.tiles[rows]
	wide := len(tiles) - 1
	for tiles[wide] == nil || lanes<<wide > left {
		wide--
	}
	return lanes << wide
}

// kStep is one block of k in a product.
type kStep struct {
	ks         *kernels
	tiles      *[maxRows + 1][4]tileFunc
	c          operandC
	a          operandA
	b          operandB
	kc         int // rows of B
	accumulate int
	next       int // distance from this block of B to what it prefetches, in bytes
	ahead      *rowsAhead
}

// rowsAhead are rows of A that are needed after a product. Each tile prefetches one in place of B.
type rowsAhead struct {
	p             unsafe.Pointer // of the first
	at            int            // distance to the next one, in bytes
	rows          int            // left
	stride, bytes int
}

// take returns the distance from b to the next row.
func (r *rowsAhead) take(b unsafe.Pointer) int {
	distance := int(uintptr(r.p)-uintptr(b)) + r.at
	r.at += r.stride
	r.rows--
	return distance
}

// block returns the part of a product over k in [k0, k0+kc).
func (ks *kernels) block(c operandC, a operandA, b operandB, k0, kc int, accumulate bool) kStep {
	if k0 > 0 {
		a.p = unsafe.Add(a.p, k0*a.ks)
		b.p = unsafe.Add(b.p, b.rows(k0)*b.ks)
	}
	s := kStep{ks: ks, tiles: &ks.tiles, c: c, a: a, b: b, kc: b.rows(kc)}
	if b.pairs {
		s.tiles = &ks.tilesPairs
	}
	if accumulate || k0 > 0 {
		s.accumulate = 1
	}
	return s
}

// panels runs all rows over cols columns from column j on, as groupColumns returned them.
func (s *kStep) panels(j, cols, m int) {
	if cols < lanes {
		s.partial(j, cols, m)
		return
	}
	wide := bits.TrailingZeros(uint(cols / lanes))
	b := unsafe.Add(s.b.p, j/lanes*s.b.panel)
	c := unsafe.Pointer(unsafe.SliceData(s.c.p[j:]))
	// Tiles that share this block prefetch the next one together.
	ahead, step := s.next, s.b.ks/((m+s.ks.rows-1)/s.ks.rows)
	for i := 0; i < m; {
		rows, groups := s.ks.tilesFrom(s.a, i, m)
		from, by := ahead, step
		if s.ahead != nil && s.ahead.rows > 0 {
			groups, from, by = 1, s.ahead.take(b), (s.ahead.bytes+s.kc-1)/s.kc
		}
		s.tiles[rows][wide](groups, s.kc, s.a.at(i), s.a.rows, s.a.ks, s.a.groupStride(rows), b, s.b.ks, s.b.panel, from, by,
			unsafe.Add(c, i*s.c.ld*4), s.c.ld*4, s.accumulate)
		ahead += step * s.kc * groups
		i += groups * rows
	}
}

// partial runs all rows over the last panel, from column j on. Only cols of its columns exist in C.
func (s *kStep) partial(j, cols, m int) {
	tile := tilePool.Get().(*[maxRows * lanes]float32)
	defer tilePool.Put(tile)
	b := unsafe.Add(s.b.p, j/lanes*s.b.panel)
	for i, rows := 0, 0; i < m; i += rows {
		rows, _ = s.ks.tilesFrom(s.a, i, m)
		for r := range rows {
			copy(tile[r*lanes:r*lanes+cols], s.c.p[(i+r)*s.c.ld+j:])
		}
		s.tiles[rows][0](1, s.kc, s.a.at(i), s.a.rows, s.a.ks, 0, b, s.b.ks, s.b.panel, 0, 0, unsafe.Pointer(tile), panelBytes, s.accumulate)
		for r := range rows {
			copy(s.c.p[(i+r)*s.c.ld+j:], tile[r*lanes:r*lanes+cols])
		}
	}
}

var tilePool = sync.Pool{New: func() any { return new([maxRows * lanes]float32) }}
