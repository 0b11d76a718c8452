package kernel

import "fmt"

// PageTokens is the number of tokens in a page of [KVPages]: the keys of one panel of the product
// kernels.
const PageTokens = lanes

// KVPages holds the keys and values of one layer in pages of [PageTokens] tokens, in the layout of
// products: keys transposed, [pages, KVHeads, HeadDim, PageTokens]; values [pages·PageTokens,
// KVHeads, HeadDim] with HeadDim rounded up to whole lanes. Pages with consecutive numbers form one
// longer operand.
//
// Pages in BF16 hold pairs of numbers, rounded to nearest even, in words of 32 bits, the first one in
// the lower half: a key's elements 2i and 2i+1, the values of tokens 2i and 2i+1. So HeadDim, rounded
// up to an even number, and PageTokens are halved in the layout.
type KVPages struct {
	keys, values []float32 // or words with pairs
	per          int       // numbers in a word: 1, or 2 in BF16
	pages        int
	heads, dim   int
}

// NewKVPages reserves pages for an attention's keys and values, in F32 or BF16. Store touches their
// memory.
func NewKVPages(arena *Arena, a Attention, pages int, storage Storage) (KVPages, error) {
	a.checkShape("NewKVPages")
	p := KVPages{per: 1, pages: pages, heads: a.KVHeads, dim: a.HeadDim}
	if storage == BF16 {
		p.per = 2
	}
	if perToken := mostFloats / a.KVHeads / a.HeadDim; pages < 0 || pages > perToken/PageTokens {
		return p, fmt.Errorf("%d pages of %d heads of %d: no memory has so many elements", pages, a.KVHeads, a.HeadDim)
	}
	var err error
	if p.keys, err = arena.Float32(pages * p.keyFloats()); err != nil {
		return p, err
	}
	p.values, err = arena.Float32(pages * PageTokens / p.per * p.valueStride())
	return p, err
}

// tiles returns the tiles for the pages' storage.
func (p *KVPages) tiles(ks *kernels) *[maxRows + 1][4]tileFunc {
	if p.per == 2 {
		return &ks.tilesPairs
	}
	return &ks.tiles
}

// keyRows returns the rows of a key's panel: its elements, or pairs of them.
func (p *KVPages) keyRows() int { return (p.dim + p.per - 1) / p.per }

// keyFloats returns the size of a page's keys, in words.
func (p *KVPages) keyFloats() int { return p.heads * p.keyRows() * PageTokens }

// valueStride returns the distance between the values of neighbouring tokens, or pairs of them.
func (p *KVPages) valueStride() int { return p.heads * roundUp(p.dim) }

// keyPanel returns the keys [keyRows, PageTokens] of a page and a head, and everything behind them.
func (p *KVPages) keyPanel(page int32, head int) []float32 {
	return p.keys[(int(page)*p.heads+head)*p.keyRows()*PageTokens:]
}

// valueRow returns the values [HeadDim] of a token, or of its pair, and a head, and everything behind
// them.
func (p *KVPages) valueRow(slot, head int) []float32 {
	return p.values[slot/p.per*p.valueStride()+head*roundUp(p.dim):]
}

// Store stores row i of the keys and values k, v [rows, KVHeads·HeadDim] at slots[i], which is
// page·PageTokens + place in the page. A page's tokens are stored in order, by one call as
// neighbours: storing the first token of a pair in BF16 clears the second one. A token may be stored
// again, in place of a draft; those behind it are void then.
func (p *KVPages) Store(pool *Pool, k, v Matrix, slots []int32) {
	const what = "KVPages.Store"
	k.checkShape(what+": keys", len(slots), p.heads*p.dim)
	v.checkShape(what+": values", len(slots), p.heads*p.dim)
	for i, slot := range slots {
		if slot < 0 || int(slot) >= p.pages*PageTokens {
			panic(fmt.Sprintf("kernel: %s: row %d goes to slot %d of %d pages", what, i, slot, p.pages))
		}
	}
	ks, step := current(), max(2, 512/(p.heads*p.dim)) // less is not worth handing out
	if len(slots) >= 128 {
		step = 64
	}
	pool.Sweep(len(slots), step, func(from, to int) { // a core stores about the rows that it reads in Paged
		if p.per == 2 {
			scratch := pool.Borrow(p.pairScratch())
			p.storePairs(ks, scratch, k, v, slots, from, to)
			pool.Return(scratch)
			return
		}
		for i := from; i < to; {
			if whole := wholePage(slots[i:to]); whole {
				p.storeKeyPage(ks, k.RowRange(i, i+PageTokens), slots[i]/PageTokens)
				i += PageTokens
				continue
			}
			p.storeKey(k.Row(i), int(slots[i]))
			i++
		}
		for i := from; i < to; i++ {
			for h := range p.heads {
				copy(p.valueRow(int(slots[i]), h), v.Row(i)[h*p.dim:(h+1)*p.dim])
			}
		}
	})
}

// wholePage reports whether the first slots are all slots of one page, in order.
func wholePage(slots []int32) bool {
	if len(slots) < PageTokens || slots[0]%PageTokens != 0 {
		return false
	}
	for i, slot := range slots[:PageTokens] {
		if slot != slots[0]+int32(i) {
			return false
		}
	}
	return true
}

// storeKeyPage stores the keys k [PageTokens, KVHeads·keyRows] of a whole page.
func (p *KVPages) storeKeyPage(ks *kernels, k Matrix, page int32) {
	n := p.keyRows()
	for h := range p.heads {
		ks.packTransposed(p.keyPanel(page, h), k.Data[h*n:], k.Stride, PageTokens, n)
	}
}

// storeKey stores the key k [KVHeads·keyRows] of a token.
func (p *KVPages) storeKey(k []float32, slot int) {
	n := p.keyRows()
	for h := range p.heads {
		panel := p.keyPanel(int32(slot/PageTokens), h)[slot%PageTokens:]
		for e, x := range k[h*n : (h+1)*n] {
			panel[e*PageTokens] = x
		}
	}
}

// Copy copies the first tokens of one page to another.
func (p *KVPages) Copy(to, from int32, tokens int) {
	for h := range p.heads {
		dst, src := p.keyPanel(to, h), p.keyPanel(from, h)
		for e := range p.keyRows() {
			copy(dst[e*PageTokens:e*PageTokens+tokens], src[e*PageTokens:])
		}
	}
	n := tokens / p.per * p.valueStride()
	copy(p.valueRow(int(to)*PageTokens, 0)[:n], p.valueRow(int(from)*PageTokens, 0))
	if tokens%p.per == 0 {
		return
	}
	last := words(p.valueRow(int(to)*PageTokens+tokens, 0), p.valueStride())
	for i, w := range words(p.valueRow(int(from)*PageTokens+tokens, 0), p.valueStride()) {
		last[i] = w & 0xffff // the other half is of a token that is not copied
	}
}
