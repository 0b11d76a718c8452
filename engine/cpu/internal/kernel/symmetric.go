package kernel

import "fmt"

// MatMulSymmetric computes c = a·b if the result is a symmetric matrix [n, n], such as x·xᵀ, in
// little more than half of the time of [MatMul]: it copies the elements below the diagonal from
// those above.
func MatMulSymmetric(pool *Pool, c, a, b Matrix) {
	checkProduct("MatMulSymmetric", c, a, b.Rows, b.Cols)
	b.check("MatMulSymmetric: right operand")
	if c.Rows != c.Cols {
		panic(fmt.Sprintf("kernel: MatMulSymmetric: result [%d, %d]", c.Rows, c.Cols))
	}
	current().packedProduct(pool, c, a, b, false, true)
	const block = 2 * lanes // rows and columns at a time; two such blocks fit a first-level cache
	pool.Run((c.Rows+block-1)/block, func(task int) {
		first, end := task*block, min(c.Rows, (task+1)*block)
		for left := 0; left < end; left += block {
			for i := first; i < end; i++ {
				for j := left; j < min(i, left+block); j++ {
					c.Data[i*c.Stride+j] = c.Data[j*c.Stride+i]
				}
			}
		}
	})
}
