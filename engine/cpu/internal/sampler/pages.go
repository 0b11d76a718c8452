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
// held by prompts and sequences, or at rest: without a holder, but findable until take needs its
// memory. A page at rest is kept for a rollout that goes on, or idle. take evicts idle pages before
// kept ones, and of both the page first that has been at rest longest.
type pages struct {
	meta   []page   // by number
	opened int      // pages before it may have been used; the memory of the others is untouched
	free   []uint64 // one bit per opened page
	nFree  int
	peak   int // most pages held at once
	idle   list
	kept   list
	most   int // pages that kept may have
	prefixes
}

// page is the state of one page.
type page struct {
	holders    int32
	in         *list // at rest; nil otherwise
	prev, next int32 // in the list; -1 at its ends
	entry
}

// list is a list of pages at rest.
type list struct {
	n              int
	oldest, newest int32 // -1: none
}

// keptShare bounds the pages that are kept for rollouts: one in keptShare of the cache. The rest
// remains for prefixes that many rollouts share.
const keptShare = 2

func newPages(n int) pages {
	none := list{oldest: -1, newest: -1}
	return pages{meta: make([]page, n), free: make([]uint64, (n+63)/64), idle: none, kept: none, most: n / keptShare, prefixes: newPrefixes(n)}
}

// held returns the number of pages with holders.
func (p *pages) held() int { return p.opened - p.nFree - p.idle.n - p.kept.n }

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

// makeRoom evicts pages at rest or opens new ones. It returns false if all pages are held.
func (p *pages) makeRoom() bool {
	if p.opened < len(p.meta) && p.idle.n <= max(p.peak, retained) {
		n := min(opening, len(p.meta)-p.opened)
		p.free[p.opened/64] = ^uint64(0) >> (64 - n)
		p.opened += n
		p.nFree += n
		return true
	}
	for range min(evicted, p.idle.n) {
		p.evict(p.idle.oldest)
	}
	if p.nFree == 0 {
		for range min(evicted, p.kept.n) {
			p.evict(p.kept.oldest)
		}
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

// hold adds a holder to a page that has holders or is at rest.
func (p *pages) hold(n int32) {
	m := &p.meta[n]
	if m.holders == 0 {
		p.unlink(n)
	}
	m.holders++
	p.peak = max(p.peak, p.held())
}

// drop removes a holder from a page. A page without holders is at rest if it is filed, and free
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
	case m.keepers > 0:
		p.link(&p.kept, n)
		if oldest := p.kept.oldest; p.kept.n > p.most {
			p.unlink(oldest)
			p.link(&p.idle, oldest)
		}
	default:
		p.link(&p.idle, n)
	}
}

// keep adds a keeper to a filed page: a rollout that goes on.
func (p *pages) keep(n int32) {
	p.meta[n].keepers++
	p.rest(n)
}

// unkeep removes a keeper.
func (p *pages) unkeep(n int32) {
	p.meta[n].keepers--
	p.rest(n)
}

// rest moves a page at rest to the list where its keepers want it.
func (p *pages) rest(n int32) {
	if p.meta[n].in != nil {
		p.hold(n)
		p.drop(n)
	}
}

func (p *pages) release(n int32) {
	p.free[n/64] |= 1 << (n % 64)
	p.nFree++
}

// link adds a page to a list, as its newest.
func (p *pages) link(l *list, n int32) {
	m := &p.meta[n]
	m.in, m.prev, m.next = l, l.newest, -1
	if l.newest >= 0 {
		p.meta[l.newest].next = n
	} else {
		l.oldest = n
	}
	l.newest = n
	l.n++
}

// unlink removes a page from its list.
func (p *pages) unlink(n int32) {
	m := &p.meta[n]
	l := m.in
	if m.prev >= 0 {
		p.meta[m.prev].next = m.next
	} else {
		l.oldest = m.next
	}
	if m.next >= 0 {
		p.meta[m.next].prev = m.prev
	} else {
		l.newest = m.prev
	}
	m.in = nil
	l.n--
}

// evict frees a page at rest.
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
	for n := range p.meta {
		switch m := &p.meta[n]; {
		case m.in != nil:
			p.evict(int32(n))
		case m.id != 0:
			p.forget(&m.entry, int32(n))
		}
	}
}
