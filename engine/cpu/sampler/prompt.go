package sampler

import "slices"

// prompt is tokens whose K/V are computed, or being computed, in chunks: a request's prompt for all its completions that
// are about to begin, or the tokens of one sequence that was preempted.
type prompt struct {
	tokens  []int32
	hash    uint64
	adapter *adapter // that computes it
	chain   chain
	done    int       // tokens computed
	users   int       // sequences that wait for it, or have not yet gone on from it
	again   bool      // of a sequence that goes on where it was: no hidden state is needed
	hidden  []float32 // [H] normalised last hidden state, input of the head; valid once complete

	headRow  int   // row of the logits that follow the prompt,
	headStep int64 // in this step
}

func newPrompt(r *request, tokens []int32) *prompt {
	return &prompt{tokens: tokens, hash: r.hash, adapter: r.adapter, chain: chain{parent: r.adapter.root}}
}

func (p *prompt) complete() bool { return p.done == len(p.tokens) }

// missing is how many pages the prompt still has to get.
func (p *prompt) missing() int { return pagesFor(len(p.tokens)) - len(p.chain.pages) }

// current is the request's prompt if it is there for others that begin now; nil otherwise.
func (s *scheduler) current(r *request) *prompt {
	for _, p := range s.prompts {
		if !p.again && p.hash == r.hash && p.adapter == r.adapter && !p.chain.outdated && slices.Equal(p.tokens, r.prompt) {
			return p
		}
	}
	return nil
}

// match moves a prompt on over whole pages that are known, computed or about to be in this step: nothing is read before
// all keys and values of a step are stored. It returns by how many tokens.
func (s *scheduler) match(p *prompt) int {
	before := p.done
	for p.done%pageTokens == 0 && !p.complete() {
		rest := p.tokens[p.done:]
		final := len(rest) <= pageTokens
		n, ok := s.pages.find(p.chain.parent, rest[:min(len(rest), pageTokens)])
		if !ok || final && !s.ends(p, n, len(rest)) {
			break
		}
		s.pages.adopt(&p.chain, n)
		p.done += min(len(rest), pageTokens)
	}
	return p.done - before
}

// ends reports whether a page with the last tokens of a prompt is all that is needed of them: the last hidden state is,
// unless a sequence goes on, which then needs a full page, because it writes to one that is not.
func (s *scheduler) ends(p *prompt, n int32, tokens int) bool {
	if p.again {
		return tokens == pageTokens
	}
	p.hidden = s.pages.meta[n].hidden
	return p.hidden != nil
}

// copySimilar begins a prompt's next page with what a known page has in common with it, and returns by how many tokens.
func (s *scheduler) copySimilar(p *prompt) int {
	if p.done%pageTokens != 0 || p.complete() {
		return 0
	}
	rest := p.tokens[p.done:]
	if !p.again {
		rest = rest[:len(rest)-1]
	}
	from, common := s.pages.similar(p.chain.parent, rest[:min(len(rest), pageTokens)], s.steps)
	if common == 0 {
		return 0
	}
	s.pages.hold(from) // it must not make room for its copy
	defer s.pages.drop(from)
	if !s.pages.extend(&p.chain) {
		return 0
	}
	s.model.copyPage(p.chain.last(), from, common)
	p.done += common
	return common
}

// retain makes the end of a complete prompt findable: its last page with the hidden state.
func (s *scheduler) retain(p *prompt) {
	n := p.chain.filed // the last page, if that is full, unless it was filed by others and evicted since
	if end := len(p.tokens) % pageTokens; end > 0 {
		n = s.pages.file(p.chain.last(), p.chain.parent, p.tokens[len(p.tokens)-end:], s.steps)
	} else if s.pages.meta[n].id != p.chain.parent {
		return
	}
	s.pages.meta[n].hidden = p.hidden
}

// leave ends one use of a prompt.
func (s *scheduler) leave(p *prompt) {
	if p.users--; p.users > 0 {
		return
	}
	s.pages.letGo(&p.chain)
	i := slices.Index(s.prompts, p)
	s.prompts = slices.Delete(s.prompts, i, i+1)
}
