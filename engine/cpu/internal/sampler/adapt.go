package sampler

import (
	"slices"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// adaptedRows is the most rows of a stretch, which one task updates.
const adaptedRows = 48

// stretch is a run of rows in a step that one adapter updates.
type stretch struct {
	from, to int
	updates  *updates
}

// stretches cuts rows, given by their adapters, into stretches. It leaves out rows without an
// adapter.
func stretches(dst []stretch, rows []*adapter) []stretch {
	dst = dst[:0]
	for i, a := range rows {
		if a.weights == nil {
			continue
		}
		if n := len(dst) - 1; n >= 0 && dst[n].to == i && dst[n].updates == a.weights && i-dst[n].from < adaptedRows {
			dst[n].to++
			continue
		}
		dst = append(dst, stretch{i, i + 1, a.weights})
	}
	return dst
}

// adapt adds the low-rank updates of the rows' adapters to y = x·Wᵀ, for the linear maps that
// pick selects. Every row gets the same bits as alone and in training, because its sums involve no other
// row and continue from y.
func (m *network) adapt(adapted []stretch, y, x kernel.Matrix, pick func(u *updates) *update) {
	width := 0 // of x·Aᵀ
	for _, s := range adapted {
		if u := pick(s.updates); u.down != nil {
			width = max(width, u.down.N)
		}
	}
	if width == 0 {
		return
	}
	m.act.low = slices.Grow(m.act.low[:0], x.Rows*width)[:x.Rows*width]
	pool := m.pool
	if len(adapted) > 1 {
		pool = nil // each stretch runs on one core
	}
	m.pool.Run(len(adapted), func(i int) {
		s := adapted[i]
		low := m.act.low[s.from*width : s.to*width]
		pick(s.updates).add(pool, y.RowRange(s.from, s.to), x.RowRange(s.from, s.to), low, s.updates)
	})
}

// add computes y += scale·(x·Aᵀ)·Bᵀ. low is scratch for x·Aᵀ.
func (u *update) add(pool *kernel.Pool, y, x kernel.Matrix, low []float32, all *updates) {
	if u.down == nil {
		return
	}
	narrow := kernel.NewMatrix(low, x.Rows, u.down.N)
	kernel.MatMulPacked(pool, narrow, x, u.down, false)
	kernel.Scale(narrow.Data[:x.Rows*u.down.N], narrow.Data[:x.Rows*u.down.N], all.scale)
	for i, p := range u.up {
		kernel.MatMulPacked(pool, y.ColRange(p.from, p.to), narrow.ColRange(i*all.rank, (i+1)*all.rank), p.b, true)
	}
}
