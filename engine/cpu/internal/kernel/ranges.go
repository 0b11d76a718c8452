package kernel

import (
	"slices"
	"sync"
	"unsafe"
)

const (
	// coreRange bounds the columns of B that a core packs for itself, in floats: with a block of rows
	// of A they stay in a second-level cache.
	coreRange = 128 << 10
	// coreDepth bounds the k of these columns. With more, a range would have too few of them to pay
	// for reading A once for each range.
	coreDepth = 768
)

// rangedProduct computes c = a·b for an a that is not a transpose. Each core packs a range of b's
// columns for itself and multiplies all of a by it before the next, so packed columns are used from
// its own cache, and no core waits until others have packed. A core that takes over work of another
// one packs that range again.
func (ks *kernels) rangedProduct(pool *Pool, c, a, b Matrix, accumulate bool) {
	m, n, k := c.Rows, c.Cols, a.Cols
	if m == 0 || n == 0 {
		return
	}
	if m*n*k <= smallProduct {
		pool = nil
	}
	panels := (n + lanes - 1) / lanes
	chunks := max(1, (k+coreDepth-1)/coreDepth)
	depth := (k + chunks*kBlock - 1) / (chunks * kBlock) * kBlock
	rows, _ := pool.cut(m, panels, k, false)
	blocks := (m + rows - 1) / rows
	for k0 := 0; k0 < k || k0 == 0; k0 += max(depth, 1) {
		kc := min(depth, k-k0)
		cut := cutRanges(panels, kc, blocks, pool.Size())
		shelf := shelf{pool: pool, floats: cut.widest * lanes * kc}
		pool.Sweep(cut.ranges*blocks, 1, func(t, _ int) {
			r, i := t/blocks, t%blocks*rows
			from, to := cut.panels(r)
			p := shelf.take(r)
			if p.of != r {
				p.of = r
				ks.packPanels(p.data, b, from, to, k0, kc)
			}
			out := operandC{c.Data[i*c.Stride+from*lanes:], c.Stride}
			left := rowMajor(a.Data[min(i*a.Stride+k0, len(a.Data)):], a.Stride)
			if next := (t + 1) % blocks * rows; blocks > 1 && kc > 0 {
				p.ahead = rowsAhead{unsafe.Pointer(&a.Data[next*a.Stride+k0]), 0, min(rows, m-next), a.Stride * 4, kc * 4}
			}
			ks.productAhead(out, left, panelMajor(p.data, kc), min(rows, m-i), min(to*lanes, n)-from*lanes, kc, accumulate || k0 > 0, &p.ahead)
			shelf.put(p)
		})
		shelf.release()
	}
}

// rangeCut divides pairs of panels, which tiles take at once, into ranges.
type rangeCut struct{ all, pairs, ranges, widest int } // widest is in panels

// cutRanges returns ranges that fit a cache, equally many for each core.
func cutRanges(panels, k, blocks, cores int) rangeCut {
	pairs := (panels + 1) / 2
	ranges := max(1, (2*pairs*lanes*k+coreRange-1)/coreRange)
	if cores > 1 {
		ranges = max(ranges, cores*max(1, 4/blocks)) // a core that is early finds something to take over
	}
	ranges = min(pairs, (ranges+cores-1)/cores*cores)
	return rangeCut{panels, pairs, ranges, 2 * ((pairs + ranges - 1) / ranges)}
}

// panels returns the panels [from, to) of a range.
func (c *rangeCut) panels(r int) (from, to int) {
	return c.pairs * r / c.ranges * 2, min(c.all, c.pairs*(r+1)/c.ranges*2)
}

// rangeScratch returns the most memory in floats that a core's range takes, if b has so many elements.
func rangeScratch(elements int) int {
	return min(coreRange+2*lanes*coreDepth, elements)
}

// shelf holds the packed ranges that no core uses at the moment.
type shelf struct {
	pool   *Pool
	floats int // of the widest range
	mu     sync.Mutex
	idle   []*packedRange // on mu
}

// packedRange is the memory of a range.
type packedRange struct {
	of    int // the range that it holds, -1 before the first
	data  []float32
	ahead rowsAhead // of the task that uses it
}

// take returns range r if it is there, or memory for it.
func (s *shelf) take(r int) *packedRange {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 {
		return &packedRange{of: -1, data: s.pool.Borrow(s.floats)}
	}
	at := max(0, slices.IndexFunc(s.idle, func(p *packedRange) bool { return p.of == r }))
	p := s.idle[at]
	s.idle = slices.Delete(s.idle, at, at+1)
	return p
}

// put returns a range to the shelf.
func (s *shelf) put(p *packedRange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, p)
}

// release gives the memory back to the pool.
func (s *shelf) release() {
	for _, p := range s.idle {
		s.pool.Return(p.data)
	}
}
