package sampler

import (
	"cmp"
	"slices"
)

// reserve gives every decoding sequence a place for its newest token. If there is no page, it
// preempts the youngest sequence, which gives up its pages and is recomputed when there is room.
func (s *scheduler) reserve() {
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

// place gives the newest token of a sequence a page. It returns false if there is none.
func (s *scheduler) place(q *sequence) bool {
	if q.prompt != nil && (!q.prompt.complete() || len(q.tokens) == 0) {
		return true
	}
	if q.prompt != nil && !s.begin(q) {
		return false
	}
	return q.position()/pageTokens < len(q.chain.pages) || s.pages.extend(&q.chain)
}

// begin gives a sequence its own chain once its prompt is computed: it shares the prompt's full
// pages and copies the rest.
func (s *scheduler) begin(q *sequence) bool {
	p := q.prompt
	if p.resumes { // no other sequence uses it
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
		pages := q.chain.pages
		q.chain = p.chain
		q.chain.pages = pages
	}
	q.prompt = nil
	s.leave(p)
	return true
}

// youngest returns the index of the running sequence that arrived last.
func (s *scheduler) youngest() int {
	at := 0
	for i, q := range s.running {
		if arrival(q, s.running[at]) > 0 {
			at = i
		}
	}
	return at
}

// arrival orders sequences by their arrival.
func arrival(a, b *sequence) int {
	return cmp.Or(cmp.Compare(a.request.id, b.request.id), cmp.Compare(a.index, b.index))
}

// preempt takes the pages of a running sequence, for older sequences.
func (s *scheduler) preempt(i int) {
	s.sendBack(i)
	s.inbox.record(func(stats *Stats) { stats.Preempted++ })
}

// sendBack makes a running sequence wait again. It keeps its tokens.
func (s *scheduler) sendBack(victim int) {
	q := s.running[victim]
	s.running = slices.Delete(s.running, victim, victim+1)
	s.vacate(q)
	i, _ := slices.BinarySearchFunc(s.preempted, q, arrival)
	s.preempted = slices.Insert(s.preempted, i, q)
}

// vacate gives up all pages of a sequence.
func (s *scheduler) vacate(q *sequence) {
	s.pages.dropChain(&q.chain)
	if q.prompt != nil {
		s.leave(q.prompt)
		q.prompt = nil
	}
}

// outdate makes all K/V of an adapter, or of all weights if a is nil, unusable for new sequences,
// because the weights were replaced. Sequences whose prompt is still being computed start again;
// the others continue with the K/V that they have. If rollouts keep their K/V, the adapters have new
// roots: only rollouts that began before find what is below the old ones.
func (s *scheduler) outdate(a *adapter) {
	keeps := s.opts.KeepAcrossVersions
	switch {
	case keeps:
	case a == nil:
		s.pages.outdate()
	default:
		s.pages.outdateBelow(a.root)
	}
	for _, p := range s.prompts {
		p.chain.outdated = p.chain.outdated || !keeps && (a == nil || p.adapter == a)
	}
	for i := len(s.running) - 1; i >= 0; i-- {
		if q := s.running[i]; a != nil && q.request.adapter != a {
			continue
		} else if q.prompt != nil && !q.prompt.complete() && !(keeps && q.request.params.Hold != nil) {
			s.sendBack(i)
		} else {
			q.chain.outdated = !keeps
		}
	}
}
