package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestPacksAlongRows: every element of the operand is in its place of a panel or a group, missing
// columns of a panel are zero, and nothing else changes.
func TestPacksAlongRows(t *testing.T) {
	const slack, gap = 3, 5
	r := rand.New(rand.NewPCG(73, 1))
	eachSet(t, func(t *testing.T) {
		ks := current()
		for _, cols := range []int{1, 4, 5, 6, 12, 15, 16, 17, 31, 32, 40, 96, 100} {
			for _, k := range []int{0, 1, 2, 7, 20} {
				m := randomMatrix(r, k, cols, slack)
				what := fmt.Sprintf("%d rows of %d columns", k, cols)
				stride := k*lanes + gap
				panels := (cols + lanes - 1) / lanes
				dst, want := random(r, panels*stride), []float32(nil)
				want = append(want, dst...)
				for i := range k {
					for j := range panels * lanes {
						at := j/lanes*stride + i*lanes + j%lanes
						if want[at] = 0; j < cols {
							want[at] = m.Row(i)[j]
						}
					}
				}
				ks.packRows(dst, m.Data, m.Stride, cols, k, stride)
				sameBits(t, "panels: "+what, dst, want)

				groups := (cols + ks.rows - 1) / ks.rows
				dst = random(r, groups*ks.rows*k)
				want = append(want[:0], dst...)
				for i := range k {
					for j := range cols {
						want[j/ks.rows*ks.rows*k+i*ks.rows+j%ks.rows] = m.Row(i)[j]
					}
				}
				ks.packGroups(dst, m.Data, m.Stride, cols, k)
				sameBits(t, "groups: "+what, dst, want)
			}
		}
	})
}
