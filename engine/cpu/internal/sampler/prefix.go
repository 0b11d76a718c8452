package sampler

import "math"

// prefixes finds pages by their tokens. It is a tree whose edges are the tokens of a page, so a
// page represents all tokens from a sequence's first to its own last. The key of a page is the id
// of its parent and its tokens themselves, not a hash: a find is never wrong, and takes time
// proportional to the tokens.
type prefixes struct {
	filed  map[pageKey]int32
	begins map[beginning]int32 // the page with this beginning that was filed last
	lastID int64
}

// pageKey is a place in the tree. For a sequence's first page, parent is a root, below 0: each
// adapter has one.
type pageKey struct {
	parent int64
	n      int32 // number of tokens; less than a full page only at the end of a prompt or completion
	tokens [pageTokens]int32
}

// beginning is a parent and the first tokens of a page below it.
type beginning struct {
	parent int64
	tokens [minCopied]int32
}

// minCopied is the least number of common first tokens for which to copy a page.
const minCopied = 8

// entry is a page's entry in the tree.
type entry struct {
	id     int64 // unique; 0 means not in the tree
	key    pageKey
	step   int64 // the step that computes its K/V
	oldest int64 // version of the oldest weights that computed K/V of these and all earlier tokens
	// keepers is the number of rollouts that go on and may need the page again.
	keepers int32
	hidden  []float32 // [H] normalised hidden state of the last token, input of the head; nil if unknown
}

func newPrefixes(pages int) prefixes {
	return prefixes{filed: make(map[pageKey]int32, pages), begins: make(map[beginning]int32, pages)}
}

func makeKey(parent int64, tokens []int32) pageKey {
	k := pageKey{parent: parent, n: int32(len(tokens))}
	copy(k.tokens[:], tokens)
	return k
}

func (k *pageKey) beginning() beginning {
	return beginning{k.parent, [minCopied]int32(k.tokens[:minCopied])}
}

// find returns the page below a parent with exactly these tokens, at most a page of them.
func (p *pages) find(parent int64, tokens []int32) (n int32, ok bool) {
	n, ok = p.filed[makeKey(parent, tokens)]
	return n, ok
}

// similar returns a page below a parent that has at least minCopied first tokens in common with
// these, and their number. A step before the given one has computed it. It returns 0 tokens if
// there is none.
func (p *pages) similar(parent int64, tokens []int32, step int64) (n int32, common int) {
	if len(tokens) < minCopied {
		return 0, 0
	}
	n, ok := p.begins[beginning{parent, [minCopied]int32(tokens)}]
	if !ok || p.meta[n].step >= step {
		return 0, 0
	}
	key := &p.meta[n].key
	return n, commonPrefix(key.tokens[:key.n], tokens)
}

func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// file adds a held page of a chain to the tree, below the chain's parent, and returns it, or the page
// that already has its place.
func (p *pages) file(c *chain, n int32, tokens []int32, step int64) int32 {
	key := makeKey(c.parent, tokens)
	if other, ok := p.filed[key]; ok {
		return other
	}
	p.lastID++
	p.meta[n].entry = entry{id: p.lastID, key: key, step: step, oldest: c.oldest}
	p.filed[key] = n
	if key.n >= minCopied {
		p.begins[key.beginning()] = n
	}
	return n
}

// forget removes a page from the tree.
func (p *pages) forget(e *entry, n int32) {
	delete(p.filed, e.key)
	if e.key.n >= minCopied && p.begins[e.key.beginning()] == n {
		delete(p.begins, e.key.beginning())
	}
	*e = entry{}
}

// chain holds the pages of one run of tokens, in order, for a prompt or a sequence.
type chain struct {
	pages    []int32
	parent   int64 // id of the last full page in the tree, or a root
	filed    int32 // the page with that id: the chain's own, or another with the same tokens
	oldest   int64 // version of the oldest weights that computed some K/V
	outdated bool  // some K/V are of replaced weights, so the chain must not be filed
}

// newChain returns an empty chain below a root.
func newChain(root int64) chain { return chain{parent: root, oldest: math.MaxInt64} }

// last returns the last page; -1 if there is none.
func (c *chain) last() int32 {
	if len(c.pages) == 0 {
		return -1
	}
	return c.pages[len(c.pages)-1]
}

// slot returns the place in the cache of the K/V at a position.
func (c *chain) slot(position int) int32 {
	return c.pages[position/pageTokens]*pageTokens + int32(position%pageTokens)
}

// extend adds a free page. It returns false if there is none.
func (p *pages) extend(c *chain) bool {
	n, ok := p.take(c.last())
	if ok {
		c.pages = append(c.pages, n)
	}
	return ok
}

// adopt adds a page that find returned.
func (p *pages) adopt(c *chain, n int32) {
	p.hold(n)
	c.pages, c.oldest = append(c.pages, n), min(c.oldest, p.meta[n].oldest)
	if p.meta[n].key.n == pageTokens {
		c.parent, c.filed = p.meta[n].id, n
	}
}

// filled files a page of a chain that this step fills.
func (p *pages) filled(c *chain, n int32, tokens []int32, step int64) {
	if !c.outdated {
		c.filed = p.file(c, n, tokens, step)
		c.parent = p.meta[c.filed].id
	}
}

// dropChain drops the pages of a chain, the last one first, so that it is evicted before its
// parents.
func (p *pages) dropChain(c *chain) {
	for i := len(c.pages) - 1; i >= 0; i-- {
		p.drop(c.pages[i])
	}
	*c = chain{pages: c.pages[:0]}
}
