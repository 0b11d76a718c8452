package sampler

// prefixes finds pages by what they hold: a tree whose edges are the tokens of a page, so that a page stands for all
// tokens from a sequence's first to its own last. A page is filed under the number of the page before it in the tree and
// its tokens themselves: a find is never wrong, and takes time in proportion to the tokens asked for.
type prefixes struct {
	filed  map[pageKey]int32
	begins map[beginning]int32 // the page filed last that begins so
	lastID int64
}

// pageKey is a place in the tree. parent is the adapter's root, below 0, for a sequence's first page.
type pageKey struct {
	parent int64
	n      int32 // tokens, fewer than a page has at the end of a prompt or completion
	tokens [pageTokens]int32
}

// beginning is the first tokens of a page.
type beginning struct {
	parent int64
	tokens [minCopied]int32
}

// minCopied is the fewest common first tokens of a page that are worth copying.
const minCopied = 8

// entry is a page's place in the tree.
type entry struct {
	id     int64 // never used again; 0: not in the tree
	key    pageKey
	step   int64     // in which its K/V are computed
	hidden []float32 // [H] normalised hidden state of the last token, input of the head; nil: not known
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

// find is the page that holds these tokens, a page of them at most, behind a parent.
func (p *pages) find(parent int64, tokens []int32) (n int32, ok bool) {
	n, ok = p.filed[makeKey(parent, tokens)]
	return n, ok
}

// similar is a page that begins, behind a parent, with the most of these tokens, and how many: minCopied at least.
// It was computed before the step.
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

// file makes a page that somebody holds findable and returns it, or the one that is there already.
func (p *pages) file(n int32, parent int64, tokens []int32, step int64) int32 {
	key := makeKey(parent, tokens)
	if other, ok := p.filed[key]; ok {
		return other
	}
	p.lastID++
	p.meta[n].entry = entry{id: p.lastID, key: key, step: step}
	p.filed[key] = n
	if key.n >= minCopied {
		p.begins[key.beginning()] = n
	}
	return n
}

// forget takes a page out of the tree.
func (p *pages) forget(e *entry, n int32) {
	delete(p.filed, e.key)
	if e.key.n >= minCopied && p.begins[e.key.beginning()] == n {
		delete(p.begins, e.key.beginning())
	}
	*e = entry{}
}

// chain is the pages of one run of tokens, in order, held by a prompt or a sequence.
type chain struct {
	pages    []int32
	parent   int64 // place in the tree of the last full page, or the adapter's root
	filed    int32 // the page that is there: the chain's own, or another with the same tokens
	outdated bool  // some K/V are of replaced weights: nobody else may find them
}

// last is the last page, -1 if there is none.
func (c *chain) last() int32 {
	if len(c.pages) == 0 {
		return -1
	}
	return c.pages[len(c.pages)-1]
}

// slot is where the token at a position has its K/V.
func (c *chain) slot(position int) int32 {
	return c.pages[position/pageTokens]*pageTokens + int32(position%pageTokens)
}

// extend adds a free page; false when there is none.
func (p *pages) extend(c *chain) bool {
	n, ok := p.take(c.last())
	if ok {
		c.pages = append(c.pages, n)
	}
	return ok
}

// adopt adds a page that was found.
func (p *pages) adopt(c *chain, n int32) {
	p.hold(n)
	c.pages = append(c.pages, n)
	if p.meta[n].key.n == pageTokens {
		c.parent, c.filed = p.meta[n].id, n
	}
}

// filled files a page of a chain that is, with this step, full.
func (p *pages) filled(c *chain, n int32, tokens []int32, step int64) {
	if !c.outdated {
		c.filed = p.file(n, c.parent, tokens, step)
		c.parent = p.meta[c.filed].id
	}
}

// letGo gives up a chain, its last page first: so it is evicted before those that lead to it.
func (p *pages) letGo(c *chain) {
	for i := len(c.pages) - 1; i >= 0; i-- {
		p.drop(c.pages[i])
	}
	*c = chain{pages: c.pages[:0]}
}
