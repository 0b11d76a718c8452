package sampler

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// pageTokens is how many tokens a page of the K/V cache holds.
const pageTokens = kernel.PageTokens

// pagesFor is how many pages hold so many tokens.
func pagesFor(tokens int) int { return (tokens + pageTokens - 1) / pageTokens }

// pages hands out the pages of the K/V cache and finds those that hold a known beginning again. A page is free, or held
// by prompts and sequences, or idle: nobody holds it, but it can be found until its memory is wanted, the one longest
// unused first.
type pages struct {
	meta   []page   // by number
	opened int      // pages before it have been in use; the memory of others is untouched
	free   []uint64 // a bit for each that is opened
	nFree  int
	peak   int   // most pages held at once
	idle   int   // pages in the list from oldest to newest
	oldest int32 // -1: none
	newest int32
	prefixes
}

// page is what is known of one page.
type page struct {
	holders    int32
	prev, next int32 // in the list of idle pages; -1 at its ends
	entry
}

func newPages(n int) pages {
	return pages{meta: make([]page, n), free: make([]uint64, (n+63)/64), oldest: -1, newest: -1, prefixes: newPrefixes(n)}
}

// held is how many pages have holders.
func (p *pages) held() int { return p.opened - p.nFree - p.idle }

// available is how many pages take could hand out.
func (p *pages) available() int { return len(p.meta) - p.held() }

const (
	// cluster is how many pages a sequence finds one behind the other, if there is such room: runs of pages are read faster.
	cluster = 4
	// evicted is how many idle pages make room at once, so that it may be in one piece.
	evicted = 8
	// opening is how many pages are opened at once: a word of bits.
	opening = 64
	// retained is how many idle pages there may be before they make room rather than untouched memory, if more were never
	// held at once: what is kept for later takes no more memory than the work itself.
	retained = 128
)

// take is a page, behind the one given if that is free; false when all are held.
func (p *pages) take(after int32) (int32, bool) {
	if p.nFree == 0 && !p.makeRoom() {
		return 0, false
	}
	n := after + 1
	if after < 0 || int(n) >= p.opened || !p.isFree(n) {
		n = p.room()
	}
	p.free[n/64] &^= 1 << (n % 64)
	p.nFree--
	p.meta[n].holders = 1
	p.peak = max(p.peak, p.held())
	return n, true
}

// makeRoom frees idle pages or opens new ones; false when all are held.
func (p *pages) makeRoom() bool {
	if p.opened < len(p.meta) && p.idle <= max(p.peak, retained) {
		n := min(opening, len(p.meta)-p.opened)
		p.free[p.opened/64] = ^uint64(0) >> (64 - n)
		p.opened += n
		p.nFree += n
		return true
	}
	for range min(evicted, p.idle) {
		p.evict(p.oldest)
	}
	return p.nFree > 0
}

func (p *pages) isFree(n int32) bool { return p.free[n/64]>>(n%64)&1 == 1 }

// room is the lowest page that begins a free cluster, or else the lowest free one.
func (p *pages) room() int32 {
	first := -1
	for i, word := range p.free {
		if word == 0 {
			continue
		}
		if first < 0 {
			first = i*64 + bits.TrailingZeros64(word)
		}
		const starts = ^uint64(0) / (1<<cluster - 1) // a bit for each cluster
		if whole := word & (word >> 1) & (word >> 2) & (word >> 3) & starts; whole != 0 {
			return int32(i*64 + bits.TrailingZeros64(whole))
		}
	}
	return int32(first)
}

// hold adds a holder to a page that has some, or is idle.
func (p *pages) hold(n int32) {
	m := &p.meta[n]
	if m.holders == 0 {
		p.unlink(n)
	}
	m.holders++
	p.peak = max(p.peak, p.held())
}

// drop takes a holder from a page: without any it is idle if it can be found, and free otherwise.
func (p *pages) drop(n int32) {
	m := &p.meta[n]
	if m.holders--; m.holders > 0 {
		return
	}
	switch {
	case m.holders < 0:
		panic(fmt.Sprintf("sampler: K/V page %d freed twice", n))
	case m.id == 0:
		p.release(n)
	default:
		m.prev, m.next = p.newest, -1
		if p.newest >= 0 {
			p.meta[p.newest].next = n
		} else {
			p.oldest = n
		}
		p.newest = n
		p.idle++
	}
}

func (p *pages) release(n int32) {
	p.free[n/64] |= 1 << (n % 64)
	p.nFree++
}

// unlink takes a page out of the list of idle ones.
func (p *pages) unlink(n int32) {
	m := &p.meta[n]
	if m.prev >= 0 {
		p.meta[m.prev].next = m.next
	} else {
		p.oldest = m.next
	}
	if m.next >= 0 {
		p.meta[m.next].prev = m.prev
	} else {
		p.newest = m.prev
	}
	p.idle--
}

// evict frees an idle page.
func (p *pages) evict(n int32) {
	p.unlink(n)
	p.forget(&p.meta[n].entry, n)
	p.release(n)
}

// outdateBelow is outdate for the pages below a root of the tree.
func (p *pages) outdateBelow(root int64) {
	var filed []int32
	for n := range p.meta {
		if p.meta[n].id != 0 {
			filed = append(filed, int32(n))
		}
	}
	slices.SortFunc(filed, func(a, b int32) int { return cmp.Compare(p.meta[a].id, p.meta[b].id) }) // parents first
	below := map[int64]bool{root: true}
	for _, n := range filed {
		m := &p.meta[n]
		if !below[m.key.parent] {
			continue
		}
		if below[m.id] = true; m.holders == 0 {
			p.evict(n)
		} else {
			p.forget(&m.entry, n)
		}
	}
}

// outdate is called when weights were replaced: no page can be found any more, those that are held stay for their
// holders.
func (p *pages) outdate() {
	for p.idle > 0 {
		p.evict(p.oldest)
	}
	for n := range p.meta {
		if p.meta[n].id != 0 {
			p.forget(&p.meta[n].entry, int32(n))
		}
	}
}
