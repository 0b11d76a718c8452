package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestRangesGiveTheSameBits: blocks of rows, ranges of columns and chunks of k change no bit, on any
// number of cores.
func TestRangesGiveTheSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(75, 1))
	for _, s := range [][3]int{{100, 70, 800}, {30, 1, 900}, {97, 300, 20}} {
		m, n, k := s[0], s[1], s[2]
		a, b, w := randomMatrix(r, m, k, 3), randomMatrix(r, k, n, 1), randomMatrix(r, n, k, 2)
		start := randomMatrix(r, m, n, 5)
		var firsts [2]Matrix
		eachSet(t, func(t *testing.T) {
			for i, right := range []Matrix{b, w.T()} {
				packed, err := NewPacked(nil, n, k, F32)
				if err != nil {
					t.Fatal(err)
				}
				packed.Pack(nil, right)
				want := clone(start)
				MatMulPacked(nil, want, a, packed, i == 0)
				if firsts[i].Data == nil {
					firsts[i] = want
				}
				sameBits(t, "another set", want.Data, firsts[i].Data)
				for _, cores := range []int{1, 2, 5} {
					pool := NewPool(cores)
					got := clone(start)
					MatMul(pool, got, a, right, i == 0)
					sameBits(t, fmt.Sprintf("%v, right operand %d, %d cores", s, i, cores), got.Data, want.Data)
					if most := ProductScratch(cores, max(m*n, m*k, n*k)); pool.ScratchBytes() > 4*int64(most) {
						t.Errorf("%v, %d cores: %d bytes borrowed, planned %d", s, cores, pool.ScratchBytes(), 4*most)
					}
					pool.Close()
				}
			}
		})
	}
}

// TestCutRanges: the ranges are all panels in order, fit the memory, and give each core as many.
func TestCutRanges(t *testing.T) {
	for _, cores := range []int{1, 2, 3, 16} {
		for panels := 1; panels < 300; panels++ {
			for _, k := range []int{0, 16, 192, coreDepth} {
				c := cutRanges(panels, k, 1+panels%5, cores)
				end := 0
				for r := range c.ranges {
					from, to := c.panels(r)
					if from != end || to <= from || to-from > c.widest {
						t.Fatalf("%d panels, k %d, %d cores: range %d is [%d, %d) after %d, the widest %d", panels, k, cores, r, from, to, end, c.widest)
					}
					end = to
				}
				if end != panels || c.widest*lanes*k > coreRange+2*lanes*k || c.ranges%cores != 0 && c.ranges != c.pairs {
					t.Fatalf("%d panels, k %d, %d cores: %+v ends at %d", panels, k, cores, c, end)
				}
			}
		}
	}
}

// TestShelf: a core finds the range that it has packed, and never one in use.
func TestShelf(t *testing.T) {
	s := shelf{floats: 1}
	a, b := s.take(0), s.take(0)
	if a == b || a.of != -1 || b.of != -1 {
		t.Fatal("two cores share memory")
	}
	a.of, b.of = 1, 2
	s.put(a)
	s.put(b)
	if s.take(2) != b || s.take(2) != a {
		t.Error("the packed range is not the first choice")
	}
}
