package kernel

import "fmt"

// PageTokens is the number of tokens in a page of [KVPages]: the keys of one panel of the product
// kernels.
const PageTokens = lanes

// KVPages holds the keys and values of one layer in pages of [PageTokens] tokens, in the layout of
// products: keys transposed, [pages, KVHeads, HeadDim, PageTokens]; values [pages·PageTokens,
// KVHeads, HeadDim] with HeadDim rounded up to whole lanes. Pages with consecutive numbers form one
// longer operand.
type KVPages struct {
	keys, values []float32
	pages        int
	heads, dim   int
}

// NewKVPages reserves pages for an attention's keys and values. Store touches their memory.
func NewKVPages(arena *Arena, a Attention, pages int) (KVPages, error) {
	a.checkShape("NewKVPages")
	p := KVPages{pages: pages, heads: a.KVHeads, dim: a.HeadDim}
	if perToken := mostFloats / a.KVHeads / a.HeadDim; pages < 0 || pages > perToken/PageTokens {
		return p, fmt.Errorf("%d pages of %d heads of %d: no memory has so many elements", pages, a.KVHeads, a.HeadDim)
	}
	var err error
	if p.keys, err = arena.Float32(pages * p.keyFloats()); err != nil {
		return p, err
	}
	p.values, err = arena.Float32(pages * PageTokens * p.valueStride())
	return p, err
}

// keyFloats returns the size of a page's keys.
func (p *KVPages) keyFloats() int { return p.heads * p.dim * PageTokens }

// valueStride returns the distance between the values of neighbouring tokens.
func (p *KVPages) valueStride() int { return p.heads * roundUp(p.dim) }

// keyPanel returns the keys [HeadDim, PageTokens] of a page and a head, and everything behind them.
func (p *KVPages) keyPanel(page int32, head int) []float32 {
	return p.keys[(int(page)*p.heads+head)*p.dim*PageTokens:]
}

// valueRow returns the values [HeadDim] of a token and a head, and everything behind them.
func (p *KVPages) valueRow(slot, head int) []float32 {
	return p.values[slot*p.valueStride()+head*roundUp(p.dim):]
}

// Store stores row i of the keys and values k, v [rows, KVHeads·HeadDim] at slots[i], which is
// page·PageTokens + place in the page.
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

func (p *KVPages) storeKeyPage(ks *kernels, k Matrix, page int32) {
	for h := range p.heads {
		ks.packTransposed(p.keyPanel(page, h), k.Data[h*p.dim:], k.Stride, PageTokens, p.dim)
	}
}

func (p *KVPages) storeKey(k []float32, slot int) {
	for h := range p.heads {
		panel := p.keyPanel(int32(slot/PageTokens), h)[slot%PageTokens:]
		for e, x := range k[h*p.dim : (h+1)*p.dim] {
			panel[e*PageTokens] = x
		}
	}
}

// Copy copies the first tokens of one page to another.
func (p *KVPages) Copy(to, from int32, tokens int) {
	for h := range p.heads {
		dst, src := p.keyPanel(to, h), p.keyPanel(from, h)
		for e := range p.dim {
			copy(dst[e*PageTokens:e*PageTokens+tokens], src[e*PageTokens:])
		}
	}
	n := tokens * p.valueStride()
	copy(p.valueRow(int(to)*PageTokens, 0)[:n], p.valueRow(int(from)*PageTokens, 0))
}
