package sampler

import (
	"maps"
	"slices"
)

// hold is what the sampler knows of a rollout that goes on: the pages that its next call may need.
type hold struct {
	root  int64           // of its pages in the tree: the adapter's root when the rollout began
	pages map[int64]int32 // whole pages of its calls, by id
}

// holder identifies a hold.
type holder struct {
	ended   <-chan struct{} // SamplingParams.Hold
	adapter *adapter
}

// holdOf returns the hold of a request, nil if no call will continue it.
func (s *scheduler) holdOf(r *request) *hold {
	if r.params.Hold == nil {
		return nil
	}
	of := holder{r.params.Hold, r.adapter}
	h := s.holds[of]
	if h == nil {
		h = &hold{root: r.adapter.root, pages: map[int64]int32{}}
		s.holds[of] = h
	}
	return h
}

// rootOf returns the root of a request's pages in the tree.
func (s *scheduler) rootOf(r *request) int64 {
	if h := s.holdOf(r); h != nil {
		return h.root
	}
	return r.adapter.root
}

// keepPages keeps the whole pages of a finished completion for the next call of its rollout. They may
// be another sequence's with the same tokens.
func (s *scheduler) keepPages(q *sequence) {
	h := s.holdOf(q.request)
	if h == nil {
		return
	}
	parent, known := h.root, slices.Concat(q.request.prompt, q.tokens[:len(q.tokens)-1]) // the newest token has no K/V
	for tokens := range slices.Chunk(known, pageTokens) {
		n, ok := s.pages.find(parent, tokens)
		if !ok || len(tokens) < pageTokens {
			return
		}
		parent = s.pages.meta[n].id
		if _, kept := h.pages[parent]; !kept {
			h.pages[parent] = n
			s.pages.keep(n)
		}
	}
}

// releaseEnded lets go of the pages of rollouts that have ended.
func (s *scheduler) releaseEnded() {
	for of, h := range s.holds {
		select {
		case <-of.ended:
		default:
			continue
		}
		delete(s.holds, of)
		for _, id := range slices.Backward(slices.Sorted(maps.Keys(h.pages))) { // parents last, as in dropChain
			if n := h.pages[id]; s.pages.meta[n].id == id { // else it was evicted
				s.pages.unkeep(n)
			}
		}
	}
}
