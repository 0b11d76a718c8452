package cpu

import "github.com/trinity-go/trinity/engine/cpu/internal/kernel"

// rowBlock is the number of rows in one task of the pool.
const rowBlock = 32

// eachRow calls do for every row, in parallel.
func eachRow(pool *kernel.Pool, rows int, do func(row int)) {
	pool.Run((rows+rowBlock-1)/rowBlock, func(task int) {
		for i := task * rowBlock; i < min(rows, (task+1)*rowBlock); i++ {
			do(i)
		}
	})
}

// gather copies rows index[i] of src to rows i of dst.
func gather(pool *kernel.Pool, dst, src kernel.Matrix, index []int32) {
	eachRow(pool, len(index), func(i int) {
		at := int(index[i])
		if p := src.Packed(); p != nil {
			p.Rows(dst.Row(i), at, at+1)
		} else {
			copy(dst.Row(i), src.Row(at))
		}
	})
}

// copyRows copies src to dst of the same shape.
func copyRows(pool *kernel.Pool, dst, src kernel.Matrix) {
	eachRow(pool, src.Rows, func(i int) { copy(dst.Row(i), src.Row(i)) })
}

// clearRows zeroes m.
func clearRows(pool *kernel.Pool, m kernel.Matrix) {
	eachRow(pool, m.Rows, func(i int) { clear(m.Row(i)) })
}

// scatterAdd adds rows i of src to rows index[i] of dst. Each task takes some of the columns and
// all rows, so every sum runs in increasing i for any number of cores.
func scatterAdd(pool *kernel.Pool, dst, src kernel.Matrix, index []int32) {
	const columns = 64
	pool.Run((src.Cols+columns-1)/columns, func(task int) {
		from, to := task*columns, min(src.Cols, (task+1)*columns)
		for i, row := range index {
			kernel.AddTo(dst.Row(int(row))[from:to], src.Row(i)[from:to])
		}
	})
}

// moveRows copies row from[i] of every matrix to row i, in place. from increases, so from[i] ≥ i.
func moveRows(pool *kernel.Pool, matrices []kernel.Matrix, from []int) {
	pool.Run(len(matrices), func(k int) {
		m := matrices[k]
		for i, row := range from {
			if i != row {
				copy(m.Row(i), m.Row(row))
			}
		}
	})
}

// eachBlock calls do for consecutive blocks of a vector of n elements, in parallel. The same blocks
// of a few vectors fit in a first-level cache together.
func eachBlock(pool *kernel.Pool, n int, do func(from, to int)) {
	const block = 4 << 10
	pool.Run((n+block-1)/block, func(task int) { do(task*block, min(n, (task+1)*block)) })
}

// clearFlat zeroes a vector.
func clearFlat(pool *kernel.Pool, v []float32) {
	const block = 1 << 18
	pool.Run((len(v)+block-1)/block, func(task int) { clear(v[task*block : min(len(v), (task+1)*block)]) })
}

// copyFlat copies a vector of the same length.
func copyFlat(pool *kernel.Pool, dst, src []float32) {
	const block = 1 << 18
	pool.Run((len(src)+block-1)/block, func(task int) {
		from, to := task*block, min(len(src), (task+1)*block)
		copy(dst[from:to], src[from:to])
	})
}
