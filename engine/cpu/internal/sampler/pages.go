package sampler

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// pageTokens is the number of tokens in a page of the K/V cache.
const pageTokens = kernel.PageTokens

// pagesFor returns the number of pages that hold so many tokens.
func pagesFor(tokens int) int { return (tokens + pageTokens - 1) / pageTokens }

// pages hands out the pages of the K/V cache and finds pages with a known prefix. A page is free,
// held by prompts and sequences, or idle: without a holder, but findable until take needs its
// memory. take evicts the page first that has been idle longest.
type pages struct {
	meta   []page   // by number
	opened int      // pages before it may have been used; the memory of the others is untouched
	free   []uint64 // one bit per opened page
	nFree  int
	peak   int   // most pages held at once
	idle   int   // pages in the list from oldest to newest
	oldest int32 // -1: none
	newest int32
	prefixes
}

// page is the state of one page.
type page struct {
	holders    int32
	prev, next int32 // in the list of idle pages; -1 at its ends
	entry
}

func newPages(n int) pages {
	return pages{meta: make([]page, n), free: make([]uint64, (n+63)/64), oldest: -1, newest: -1, prefixes: newPrefixes(n)}
}

// held returns the number of pages with holders.
func (p *pages) held() int { return p.opened - p.nFree - p.idle }

// available returns the number of pages that take could hand out.
func (p *pages) available() int { return len(p.meta) - p.held() }

const (
	// cluster is the number of consecutive free pages that a new run of pages should begin with,
	// because consecutive pages are read faster.
	cluster = 4
	// evicted is the number of idle pages to evict at once, so that they may be consecutive.
	evicted = 8
	// opening is the number of pages to open at once: one word of bits.
	opening = 64
	// retained is the number of idle pages above which makeRoom evicts idle pages before it opens
	// untouched ones, unless more pages were held at once: idle pages take no more memory than the
	// work itself.
	retained = 128
)

// take returns a page: the one that follows after, if it is free. It returns false if all are held.
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

// makeRoom evicts idle pages or opens new ones. It returns false if all pages are held.
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

// room returns the lowest page that begins a free cluster, or else the lowest free page.
func (p *pages) room() int32 {
	first := -1
	for i, word := range p.free {
		if word == 0 {
			continue
		}
		if first < 0 {
			first = i*64 + bits.TrailingZeros64(word)
		}
		const starts = ^uint64(0) / (1<<cluster - 1) // one bit per cluster
		if whole := word & (word >> 1) & (word >> 2) & (word >> 3) & starts; whole != 0 {
			return int32(i*64 + bits.TrailingZeros64(whole))
		}
	}
	return int32(first)
}

// hold adds a holder to a page that has holders or is idle.
func (p *pages) hold(n int32) {
	m := &p.meta[n]
	if m.holders == 0 {
		p.unlink(n)
	}
	m.holders++
	p.peak = max(p.peak, p.held())
}

// drop removes a holder from a page. A page without holders is idle if it is filed, and free
// otherwise.
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

// unlink removes a page from the list of idle pages.
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

// outdateBelow removes the pages below a root of the tree from the tree; see outdate.
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

// outdate removes all pages from the tree, because the weights were replaced. Held pages stay for
// their holders.
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
