package cpu

import "github.com/trinity-go/trinity/engine/cpu/kernel"

// rowBlock is how many rows a task copies.
const rowBlock = 32

// eachRow calls do for every row, in parallel.
func (e *Engine) eachRow(rows int, do func(row int)) {
	e.pool.Run((rows+rowBlock-1)/rowBlock, func(task int) {
		for i := task * rowBlock; i < min(rows, (task+1)*rowBlock); i++ {
			do(i)
		}
	})
}

// gather copies rows index[i] of src to rows i of dst.
func (e *Engine) gather(dst, src kernel.Matrix, index []int32) {
	e.eachRow(len(index), func(i int) { copy(dst.Row(i), src.Row(int(index[i]))) })
}

// copyRows copies src to dst of the same shape.
func (e *Engine) copyRows(dst, src kernel.Matrix) {
	e.eachRow(src.Rows, func(i int) { copy(dst.Row(i), src.Row(i)) })
}

// clearRows zeroes m.
func (e *Engine) clearRows(m kernel.Matrix) {
	e.eachRow(m.Rows, func(i int) { clear(m.Row(i)) })
}

// scaleRows multiplies m by a number.
func (e *Engine) scaleRows(m kernel.Matrix, by float32) {
	e.eachRow(m.Rows, func(i int) { kernel.Scale(m.Row(i), m.Row(i), by) })
}

// scatterAdd adds rows i of src to rows index[i] of dst, in increasing i whatever the number of cores: tasks share columns, not rows.
func (e *Engine) scatterAdd(dst, src kernel.Matrix, index []int32) {
	const columns = 64
	e.pool.Run((src.Cols+columns-1)/columns, func(task int) {
		from, to := task*columns, min(src.Cols, (task+1)*columns)
		for i, row := range index {
			kernel.AddTo(dst.Row(int(row))[from:to], src.Row(i)[from:to])
		}
	})
}

// eachBlock calls do for consecutive parts of a vector of n elements, in parallel; a part with its neighbours in other vectors stays in a
// first-level cache.
func (e *Engine) eachBlock(n int, do func(from, to int)) {
	const block = 4 << 10
	e.pool.Run((n+block-1)/block, func(task int) { do(task*block, min(n, (task+1)*block)) })
}

// clearFlat zeroes a vector.
func (e *Engine) clearFlat(v []float32) {
	const block = 1 << 18
	e.pool.Run((len(v)+block-1)/block, func(task int) { clear(v[task*block : min(len(v), (task+1)*block)]) })
}

// copyFlat copies a vector of the same length.
func (e *Engine) copyFlat(dst, src []float32) {
	const block = 1 << 18
	e.pool.Run((len(src)+block-1)/block, func(task int) {
		from, to := task*block, min(len(src), (task+1)*block)
		copy(dst[from:to], src[from:to])
	})
}
