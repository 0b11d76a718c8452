package sampler

import (
	"math/rand/v2"
	"testing"
)

// checkPages fails unless a sampler at rest holds no page, and every page is either free or idle
// and found under its tokens.
func checkPages(t *testing.T, s *Sampler) {
	t.Helper()
	s.gate.Lock()
	defer s.gate.Unlock()
	if len(s.scheduler.running)+len(s.scheduler.preempted)+len(s.scheduler.prompts) > 0 {
		t.Fatalf("%d running, %d preempted, %d prompts", len(s.scheduler.running), len(s.scheduler.preempted), len(s.scheduler.prompts))
	}
	for n := range s.scheduler.pages.meta {
		if h := s.scheduler.pages.meta[n].holders; h != 0 {
			t.Errorf("page %d has %d holders", n, h)
		}
	}
	checkAccounts(t, &s.scheduler.pages)
}

// checkAccounts fails unless every page is free, idle or held, once, and the tree and the list
// agree with that.
func checkAccounts(t *testing.T, p *pages) {
	t.Helper()
	free, filed, idle := 0, 0, map[int32]bool{}
	for _, l := range []*list{&p.idle, &p.kept} {
		previous, before := int32(-1), len(idle)
		for n := l.oldest; n >= 0; previous, n = n, p.meta[n].next {
			if idle[n] || p.meta[n].prev != previous || p.meta[n].in != l {
				t.Fatalf("a list of pages at rest is broken at page %d", n)
			}
			idle[n] = true
		}
		if previous != l.newest || len(idle)-before != l.n {
			t.Fatalf("a list has %d pages and ends with %d; counted %d, last %d", len(idle)-before, previous, l.n, l.newest)
		}
	}
	if p.kept.n > p.most {
		t.Errorf("%d pages are kept, at most %d may be", p.kept.n, p.most)
	}
	for n := range p.meta {
		m := &p.meta[n]
		if p.isFree(int32(n)) {
			free++
		}
		if m.in == &p.kept && m.keepers == 0 || m.keepers < 0 {
			t.Errorf("page %d is kept for %d rollouts", n, m.keepers)
		}
		if m.id != 0 {
			filed++
			if at, ok := p.filed[m.key]; !ok || at != int32(n) {
				t.Errorf("page %d is filed as %d, %v", n, at, ok)
			}
		}
		if n >= p.opened {
			if m.holders != 0 || m.id != 0 || p.isFree(int32(n)) {
				t.Errorf("page %d is in use, the first %d are opened", n, p.opened)
			}
			continue
		}
		if ways := count(p.isFree(int32(n)), idle[int32(n)], m.holders > 0); ways != 1 || idle[int32(n)] && m.id == 0 || p.isFree(int32(n)) && m.id != 0 {
			t.Errorf("page %d: free %v, idle %v, %d holders, id %d", n, p.isFree(int32(n)), idle[int32(n)], m.holders, m.id)
		}
	}
	if free != p.nFree || filed != len(p.filed) {
		t.Errorf("%d pages free, counted %d; %d filed, %d in the map", free, p.nFree, filed, len(p.filed))
	}
	for b, n := range p.begins {
		if k := &p.meta[n].key; p.meta[n].id == 0 || k.beginning() != b {
			t.Errorf("page %d does not begin as filed", n)
		}
	}
}

func count(facts ...bool) (n int) {
	for _, f := range facts {
		if f {
			n++
		}
	}
	return n
}

// TestPagesAreNeitherLostNorFreedTwice takes, files, finds, keeps and drops chains at random.
func TestPagesAreNeitherLostNorFreedTwice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const size = 150
	p := newPages(size)
	var chains []chain
	kept := map[int64]int32{} // pages that the one rollout keeps, by id
	token := func() []int32 { // few different ones, so that pages are found
		t := make([]int32, pageTokens)
		t[rng.IntN(2)] = rng.Int32N(3)
		return t
	}
	for step := range int64(20000) {
		switch c := rng.IntN(10); {
		case c < 3 || len(chains) == 0:
			chains = append(chains, chain{})
		case c < 8:
			c := &chains[rng.IntN(len(chains))]
			tokens := token()
			if n, ok := p.find(c.parent, tokens); ok && !c.outdated {
				p.adopt(c, n)
			} else if p.extend(c) {
				p.filled(c, c.last(), tokens, step)
			} else if p.available() != 0 {
				t.Fatalf("no page, with %d available", p.available())
			}
		case c == 8 && rng.IntN(2) == 0:
			if n := chains[rng.IntN(len(chains))].last(); n >= 0 && p.meta[n].id != 0 && kept[p.meta[n].id] == 0 {
				kept[p.meta[n].id] = n
				p.keep(n)
			}
			for id, n := range kept {
				if rng.IntN(8) > 0 {
					continue
				}
				delete(kept, id)
				if p.meta[n].id == id {
					p.unkeep(n)
				}
			}
		case c < 9 || rng.IntN(50) > 0:
			i := rng.IntN(len(chains))
			p.dropChain(&chains[i])
			chains = append(chains[:i], chains[i+1:]...)
		default:
			p.outdate()
			for i := range chains {
				chains[i].outdated = true
			}
		}
		holders := 0
		for i := range chains {
			holders += len(chains[i].pages)
		}
		for n := range p.meta {
			holders -= int(p.meta[n].holders)
		}
		if holders != 0 {
			t.Fatalf("step %d: %d holds more than pages know of", step, holders)
		}
		if step%50 == 0 {
			checkAccounts(t, &p)
		}
	}
	for i := range chains {
		p.dropChain(&chains[i])
	}
	if checkAccounts(t, &p); p.available() != size {
		t.Errorf("%d pages at the end, want %d", p.available(), size)
	}
}

func TestDroppingAPageTwicePanics(t *testing.T) {
	p := newPages(4)
	n, _ := p.take(-1)
	p.drop(n)
	defer func() {
		if recover() == nil {
			t.Error("dropping twice did not panic")
		}
	}()
	p.drop(n)
}

func TestAChainsPagesFollowOneAnother(t *testing.T) {
	p := newPages(64)
	chains := make([]chain, 4)
	for range 4 {
		for i := range chains {
			p.extend(&chains[i])
		}
	}
	for i, c := range chains {
		for j := 1; j < 4; j++ {
			if c.pages[j] != c.pages[j-1]+1 {
				t.Errorf("chain %d: %v", i, c.pages)
			}
		}
	}
}

func TestTheOldestIdlePageMakesRoom(t *testing.T) {
	p := newPages(evicted + 2)
	var first, second chain
	for i := range int32(2) {
		p.extend(&first)
		p.filled(&first, first.last(), []int32{1, i, 15: 0}, 1)
	}
	for i := range int32(evicted) {
		p.extend(&second)
		p.filled(&second, second.last(), []int32{2, i, 15: 0}, 1)
	}
	p.dropChain(&second)
	p.dropChain(&first)
	if n, ok := p.take(-1); !ok || p.nFree != evicted-1 {
		t.Fatalf("page %d, %v, %d free", n, ok, p.nFree)
	}
	if _, ok := p.find(0, []int32{2, 0, 15: 0}); ok {
		t.Error("the chain let go first is still there")
	}
	if n, ok := p.find(0, []int32{1, 0, 15: 0}); !ok || p.meta[n].step != 1 {
		t.Error("the chain let go last is gone")
	}
}

// TestIdlePagesTakeNoNewMemory: a long run of short sequences is content with what idle pages may
// keep.
func TestIdlePagesTakeNoNewMemory(t *testing.T) {
	p := newPages(10000)
	for i := range int32(3000) {
		var c chain
		for j := range int32(3) {
			p.extend(&c)
			p.filled(&c, c.last(), []int32{i, j, 15: 0}, int64(i))
		}
		p.dropChain(&c)
	}
	if p.peak != 3 || p.opened > retained+2*opening {
		t.Errorf("%d pages opened, %d held at most", p.opened, p.peak)
	}
	if _, ok := p.find(0, []int32{2999, 0, 15: 0}); !ok {
		t.Error("the newest page is gone")
	}
	checkAccounts(t, &p)
}
