package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestPairsAreStoredAlike: pages in BF16 have the same bits whether their tokens come one by one, in runs of any
// length or all at once on several cores, and a copy has those of a page that ends there.
func TestPairsAreStoredAlike(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	const pages, from = 14, 2 * PageTokens
	var first [][]float32
	eachSet(t, func(t *testing.T) {
		var all [][]float32
		for _, a := range []Attention{
			{Heads: 3, KVHeads: 3, HeadDim: 64}, {Heads: 4, KVHeads: 2, HeadDim: 5}, {Heads: 1, KVHeads: 1, HeadDim: 18},
		} {
			r := rand.New(rand.NewPCG(5, uint64(a.HeadDim)))
			const tokens = 150
			k, v := randomMatrix(r, tokens, a.KVHeads*a.HeadDim, 3), randomMatrix(r, tokens, a.KVHeads*a.HeadDim, 0)
			k.Data[7], v.Data[9], v.Data[11] = float32(math.NaN()), float32(math.Inf(1)), math.Float32frombits(0x3f808000) // a tie
			slots := make([]int32, tokens)
			for i := range slots {
				slots[i] = int32(from + i)
			}
			fresh := func() KVPages {
				kv, err := NewKVPages(NewArena(), a, pages, BF16)
				if err != nil {
					t.Fatal(err)
				}
				for i := range kv.values {
					if i%roundUp(a.HeadDim) < a.HeadDim {
						kv.values[i] = math.Float32frombits(0x7fff7fff) // what others left behind must not matter
					}
				}
				return kv
			}
			whole := fresh()
			whole.Store(pool, k, v, slots)
			for _, most := range []int{1, 2, 3, 20, 70} {
				kv := fresh()
				for i := 0; i < tokens; {
					n := min(1+r.IntN(most), tokens-i)
					kv.Store(pool, k.RowRange(i, i+n), v.RowRange(i, i+n), slots[i:i+n])
					i += n
				}
				sameBits(t, fmt.Sprintf("keys by %d", most), kv.keys, whole.keys)
				sameBits(t, fmt.Sprintf("values by %d", most), kv.values, whole.values)
			}
			all = append(all, whole.keys, whole.values)
			for n := 1; n <= PageTokens; n++ {
				ended, copied := fresh(), fresh()
				ended.Store(nil, k.RowRange(0, n), v.RowRange(0, n), slots[:n])
				copied.Store(nil, k, v, slots)
				copied.Copy(0, from/PageTokens, n)
				size := copied.keyFloats()
				sameBits(t, fmt.Sprintf("keys of %d copied", n), copied.keys[:size], ended.keys[2*size:3*size])
				size = (n + 1) / 2 * copied.valueStride()
				sameBits(t, fmt.Sprintf("values of %d copied", n), copied.values[:size], ended.valueRow(from, 0)[:size])
			}
		}
		if first == nil {
			first = all
		}
		for i := range all {
			sameBits(t, "another set", all[i], first[i])
		}
	})
}
