package sampler

import (
	"cmp"
	"slices"
)

// reserve gives every sequence that decodes a place for its newest token. When no page is to be had the youngest
// sequence is preempted: it gives up its pages and is computed again when there is room.
func (s *Sampler) reserve() {
	for i := 0; i < len(s.running); i++ {
		for q := s.running[i]; !s.place(q); {
			at := s.youngest()
			self := s.running[at] == q
			if s.preempt(at); at <= i {
				i--
			}
			if self {
				break
			}
		}
	}
}

// place makes sure that the newest token of a sequence has a page; false when there is none.
func (s *scheduler) place(q *sequence) bool {
	if q.prompt != nil && (!q.prompt.complete() || len(q.tokens) == 0) {
		return true
	}
	if q.prompt != nil && !s.begin(q) {
		return false
	}
	return q.position()/pageTokens < len(q.chain.pages) || s.pages.extend(&q.chain)
}

// begin gives a sequence pages of its own once its prompt is computed: it shares the full ones and copies the rest.
func (s *scheduler) begin(q *sequence) bool {
	p := q.prompt
	if p.again { // nobody else has it
		q.chain, p.chain = p.chain, q.chain
	} else {
		full, rest := len(p.tokens)/pageTokens, len(p.tokens)%pageTokens
		tail := int32(-1)
		if rest > 0 {
			n, ok := s.pages.take(-1)
			if !ok {
				return false
			}
			s.model.copyPage(n, p.chain.last(), rest)
			tail = n
		}
		q.chain.pages = append(q.chain.pages[:0], p.chain.pages[:full]...)
		for _, n := range q.chain.pages {
			s.pages.hold(n)
		}
		if rest > 0 {
			q.chain.pages = append(q.chain.pages, tail)
		}
		q.chain.parent, q.chain.filed, q.chain.outdated = p.chain.parent, p.chain.filed, p.chain.outdated
	}
	q.prompt = nil
	s.leave(p)
	return true
}

// youngest is the running sequence that arrived last.
func (s *scheduler) youngest() int {
	at := 0
	for i, q := range s.running {
		if arrival(q, s.running[at]) > 0 {
			at = i
		}
	}
	return at
}

// arrival compares sequences by when they arrived.
func arrival(a, b *sequence) int {
	return cmp.Or(cmp.Compare(a.request.id, b.request.id), cmp.Compare(a.index, b.index))
}

// preempt takes the pages of a running sequence for older ones.
func (s *Sampler) preempt(at int) {
	s.sendBack(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Preempted++
}

// sendBack lets a running sequence wait again, its tokens kept.
func (s *scheduler) sendBack(at int) {
	q := s.running[at]
	s.running = slices.Delete(s.running, at, at+1)
	s.vacate(q)
	i, _ := slices.BinarySearchFunc(s.preempted, q, arrival)
	s.preempted = slices.Insert(s.preempted, i, q)
}

// vacate gives up all pages of a sequence.
func (s *scheduler) vacate(q *sequence) {
	s.pages.letGo(&q.chain)
	if q.prompt != nil {
		s.leave(q.prompt)
		q.prompt = nil
	}
}

// outdate is called when the weights of an adapter, or with nil all weights, were replaced. Sequences whose prompt is still being computed start again; others go
// on with what they have.
func (s *scheduler) outdate(a *adapter) {
	if a == nil {
		s.pages.outdate()
	} else {
		s.pages.outdateBelow(a.root)
	}
	for _, p := range s.prompts {
		p.chain.outdated = p.chain.outdated || a == nil || p.adapter == a
	}
	for i := len(s.running) - 1; i >= 0; i-- {
		if q := s.running[i]; a != nil && q.request.adapter != a {
			continue
		} else if q.prompt != nil && !q.prompt.complete() {
			s.sendBack(i)
		} else {
			q.chain.outdated = true
		}
	}
}
