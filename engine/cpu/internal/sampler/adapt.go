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

// lowOfPairs makes room for the low-rank states of pairs, and returns their width; 0 if no adapter covers experts of the layer.
func (m *network) lowOfPairs(adapted []stretch, layer, pairs int) (width int) {
	for _, s := range adapted {
		for i := range s.updates.layers[layer].experts {
			for _, u := range []*update{&s.updates.layers[layer].experts[i].gateUp, &s.updates.layers[layer].experts[i].down} {
				if u.down != nil {
					width = max(width, u.down.N)
				}
			}
		}
	}
	m.act.low = slices.Grow(m.act.low[:0], pairs*width)[:pairs*width]
	return width
}

// adaptPairs adds the low-rank updates of an expert's pairs, of which y and x are the rows from the given one, to y = x·Wᵀ. The
// pairs of an adapter that follow one another are one product.
func (m *network) adaptPairs(b *batch, layer, from, width int, y, x kernel.Matrix, pick func(l *layerUpdates) *update) {
	of := func(row int) *updates { return b.adapters[m.act.mixture.routing.Token(from+row)].weights }
	for row := 0; width > 0 && row < y.Rows; {
		all, end := of(row), row+1
		for end < y.Rows && of(end) == all {
			end++
		}
		if all != nil && all.layers[layer].experts != nil {
			low := m.act.low[(from+row)*width : (from+end)*width]
			pick(&all.layers[layer]).add(m.pool, y.RowRange(row, end), x.RowRange(row, end), low, all)
		}
		row = end
	}
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
