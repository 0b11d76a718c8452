package sampler

import "slices"

// prompt is a run of tokens whose K/V the steps compute in chunks: a request's prompt, for all its
// completions that have not begun, or the tokens of one preempted sequence.
type prompt struct {
	tokens  []int32
	hash    uint64
	adapter *adapter // with which it is computed
	chain   chain
	root    int64     // of its pages in the tree
	done    int       // tokens computed or found
	reused  int       // of them, those that were found
	users   int       // sequences that wait for it or have not left it yet
	resumes bool      // it belongs to a preempted sequence, which needs no hidden state
	scores  *scores   // of its tokens; nil if nobody wants them
	hidden  []float32 // [H] normalised last hidden state, input of the head; valid once complete

	headRow  int // row of the logits that follow the prompt, in step headStep
	headStep int64
}

func (s *scheduler) newPrompt(r *request, tokens []int32) *prompt {
	root := s.rootOf(r)
	return &prompt{tokens: tokens, hash: r.hash, adapter: r.adapter, root: root, chain: newChain(root), scores: r.scores}
}

func (p *prompt) complete() bool { return p.done == len(p.tokens) }

// missing returns the number of pages that the prompt still needs.
func (p *prompt) missing() int { return pagesFor(len(p.tokens)) - len(p.chain.pages) }

// current returns the request's prompt if the scheduler has it for new sequences; nil otherwise.
func (s *scheduler) current(r *request) *prompt {
	root := s.rootOf(r)
	for _, p := range s.prompts {
		if !p.resumes && p.hash == r.hash && p.root == root && p.scores == r.scores && !p.chain.outdated && slices.Equal(p.tokens, r.prompt) {
			return p
		}
	}
	return nil
}

// match advances a prompt over whole known pages and returns the number of tokens. A page is known
// even if this step computes it, because a layer stores all keys and values of a step before it
// reads any.
func (s *scheduler) match(p *prompt) int {
	before := p.done
	for p.done%pageTokens == 0 && !p.complete() {
		rest := p.tokens[p.done:]
		final := len(rest) <= pageTokens
		if p.reusable() < min(len(rest), pageTokens) {
			break
		}
		n, ok := s.pages.find(p.chain.parent, rest[:min(len(rest), pageTokens)])
		if !ok || final && !s.ends(p, n, len(rest)) {
			break
		}
		s.pages.adopt(&p.chain, n)
		p.done += min(len(rest), pageTokens)
	}
	p.reused += p.done - before
	return p.done - before
}

// ends reports whether page n, which holds the last tokens of a prompt, completes it. A request's
// prompt also needs its last hidden state. A resumed sequence needs a full page, because it would
// write to a partial one.
func (s *scheduler) ends(p *prompt, n int32, tokens int) bool {
	if p.resumes {
		return tokens == pageTokens
	}
	p.hidden = s.pages.meta[n].hidden
	return p.hidden != nil
}

// copySimilar copies the first tokens of a prompt's next page from a known page that begins with
// the same tokens, and returns their number.
func (s *scheduler) copySimilar(p *prompt) int {
	if p.done%pageTokens != 0 || p.complete() || p.reusable() <= 0 {
		return 0
	}
	rest := p.tokens[p.done:][:p.reusable()]
	if !p.resumes && p.scores == nil {
		rest = rest[:len(rest)-1]
	}
	from, common := s.pages.similar(p.chain.parent, rest[:min(len(rest), pageTokens)], s.steps)
	if common == 0 {
		return 0
	}
	s.pages.hold(from) // so that extend does not evict it
	defer s.pages.drop(from)
	if !s.pages.extend(&p.chain) {
		return 0
	}
	s.model.copyPage(p.chain.last(), from, common)
	p.chain.oldest = min(p.chain.oldest, s.pages.meta[from].oldest)
	p.done += common
	p.reused += common
	return common
}

// retain files the last page of a complete prompt with its hidden state, so that later prompts find
// it.
func (s *scheduler) retain(p *prompt) {
	n := p.chain.filed // the last page if it is full, unless another sequence filed it and it was evicted since
	if end := len(p.tokens) % pageTokens; end > 0 {
		n = s.pages.file(&p.chain, p.chain.last(), p.tokens[len(p.tokens)-end:], s.steps)
	} else if s.pages.meta[n].id != p.chain.parent {
		return
	}
	s.pages.meta[n].hidden = p.hidden
}

// leave removes a user of a prompt, and the prompt after its last user.
func (s *scheduler) leave(p *prompt) {
	if p.users--; p.users > 0 {
		return
	}
	s.pages.dropChain(&p.chain)
	i := slices.Index(s.prompts, p)
	s.prompts = slices.Delete(s.prompts, i, i+1)
}
