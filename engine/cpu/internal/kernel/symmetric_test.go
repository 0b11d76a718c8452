package kernel

import (
	"math/rand/v2"
	"testing"
)

// Half of a symmetric product and its mirror image have the bits of the whole product.
func TestMatMulSymmetric(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	eachSet(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(6, 1))
		for _, s := range [][2]int{{1, 1}, {5, 7}, {16, 3}, {33, 200}, {100, 40}, {300, 65}, {4, 0}} {
			wide, tall := randomMatrix(r, s[0], s[1], 3), randomMatrix(r, s[1], s[0], 2)
			for _, operands := range [][2]Matrix{{wide, wide.T()}, {tall.T(), tall}} {
				before := randomMatrix(r, s[0], s[0], 5)
				want, got, single := clone(before), clone(before), clone(before)
				MatMul(pool, want, operands[0], operands[1], false)
				MatMulSymmetric(pool, got, operands[0], operands[1])
				MatMulSymmetric(nil, single, operands[0], operands[1])
				sameBits(t, "the whole product", got.Data, want.Data)
				sameBits(t, "one core", single.Data, want.Data)
			}
		}
	})
}
