package trinitytest

import (
	"slices"
	"testing"

	"github.com/trinity-go/trinity/selector"
)

// SelectorEpochs checks that a selector with epochs gives every row once per epoch, for any batch
// sizes.
func SelectorEpochs(t *testing.T, build func() selector.Selector) {
	for _, n := range []int{1, 3, 10} {
		for _, size := range []int{1, 3, 7, 23} {
			s := build()
			if err := s.Start(ranked(n)); err != nil {
				t.Fatal(err)
			}
			var rows []int
			for range n {
				rows = append(rows, step(t, s, n, size)...)
			}
			for epoch := range slices.Chunk(rows, n) {
				if sorted := slices.Compact(slices.Sorted(slices.Values(epoch))); len(sorted) != n {
					t.Errorf("%d rows in batches of %d: an epoch is %v", n, size, epoch)
				}
			}
		}
	}
}
