package kernel

import "unsafe"

// words views n floats of pages as the words that they are in BF16.
func words(v []float32, n int) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(v[:n]))), n)
}

// pairScratch returns the floats that storePairs needs: the rounded keys of a page or values of a pair.
func (p *KVPages) pairScratch() int { return max(PageTokens*p.heads*p.keyRows(), p.heads*p.dim) }

// storePairs is [KVPages.Store] in BF16, for rows [from, to).
func (p *KVPages) storePairs(ks *kernels, scratch []float32, k, v Matrix, slots []int32, from, to int) {
	wide := 2 * p.heads * p.keyRows() // bf16 numbers of a token's keys
	rounded := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(scratch))), 2*p.pairScratch())
	for i := from; i < to; {
		if wholePage(slots[i:to]) {
			for r := range PageTokens {
				p.roundKey(ks, rounded[r*wide:(r+1)*wide], k.Row(i+r))
			}
			p.storeKeyPage(ks, NewMatrix(scratch, PageTokens, wide/2), slots[i]/PageTokens)
			i += PageTokens
			continue
		}
		p.roundKey(ks, rounded[:wide], k.Row(i))
		p.storeKey(scratch[:wide/2], int(slots[i]))
		i++
	}
	for i := from; i < to; i++ {
		p.storeValue(ks, rounded, v, slots, i)
	}
}

// roundKey rounds the keys of a token, head by head, padded to whole pairs.
func (p *KVPages) roundKey(ks *kernels, dst []uint16, k []float32) {
	if p.dim%2 == 0 {
		ks.roundRow(dst, k)
		return
	}
	for h := range p.heads {
		to := dst[h*(p.dim+1) : (h+1)*(p.dim+1)]
		ks.roundRow(to, k[h*p.dim:(h+1)*p.dim])
		to[p.dim] = 0
	}
}

// roundRow rounds x to bf16.
func (ks *kernels) roundRow(dst []uint16, x []float32) {
	n := len(x) &^ (lanes - 1)
	if n > 0 {
		ks.toBF16(&dst[0], &x[0], n)
	}
	for i := n; i < len(x); i++ {
		dst[i] = toBF16(x[i])
	}
}

// storeValue stores the values of row i. The first token of a pair brings the second one along if it
// is the next row, and that row then does nothing: so no two tasks write a word.
func (p *KVPages) storeValue(ks *kernels, rounded []uint16, v Matrix, slots []int32, i int) {
	slot, n := int(slots[i]), p.heads*p.dim
	second := slot%2 == 1
	if second && i > 0 && int(slots[i-1]) == slot-1 {
		return
	}
	first, next := rounded[:n], rounded[n:2*n]
	ks.roundRow(first, v.Row(i))
	both := !second && i+1 < len(slots) && int(slots[i+1]) == slot+1
	if both {
		ks.roundRow(next, v.Row(i+1))
	} else {
		clear(next)
	}
	for h := range p.heads {
		to := words(p.valueRow(slot, h), p.dim)
		a := first[h*p.dim : (h+1)*p.dim]
		if !second {
			joinPairs(to, a, next[h*p.dim:])
			continue
		}
		for e, x := range a {
			to[e] = to[e]&0xffff | uint32(x)<<16
		}
	}
}
