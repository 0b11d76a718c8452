package sampler

import "slices"

// admit starts sequences while there is room: preempted ones first, then queued requests in order.
func (s *scheduler) admit() {
	for len(s.running) < s.opts.MaxSequences && len(s.preempted) > 0 {
		if q := s.preempted[0]; !s.readmit(q) {
			return
		}
		s.preempted = slices.Delete(s.preempted, 0, 1)
	}
	for len(s.running) < s.opts.MaxSequences {
		r := s.inbox.first()
		if r == nil || !r.failed() && !s.start(r) {
			return
		}
		if r.admitted++; r.admitted == r.params.N || r.failed() {
			s.inbox.pop()
		}
	}
}

// start makes the request's next completion a sequence. It returns false if pages are short.
func (s *scheduler) start(r *request) bool {
	p := s.current(r)
	known := p != nil
	if !known {
		p = s.newPrompt(r, r.prompt)
	}
	if !s.acquire(p) {
		return false
	}
	s.count(p, known)
	q := s.newSequence(r, p)
	q.shares = known
	s.join(q)
	return true
}

// readmit starts a preempted sequence again. It returns false if pages are short. The steps
// recompute the sequence's tokens like a prompt, unless their pages are still there. Its newest
// token has no K/V yet and is not part of that prompt.
func (s *scheduler) readmit(q *sequence) bool {
	p := s.current(q.request)
	q.shares = p != nil
	if len(q.tokens) > 0 {
		p = s.newPrompt(q.request, slices.Concat(q.request.prompt, q.tokens[:len(q.tokens)-1]))
		p.resumes, p.scores = true, nil
	} else if p == nil {
		p = s.newPrompt(q.request, q.request.prompt)
	}
	if !s.acquire(p) {
		return false
	}
	q.prompt = p
	s.join(q)
	return true
}

// headroom is the number of free pages for each sequence that admitting another one must leave, so
// that none is preempted soon after. For all sequences together, an eighth of the cache is enough.
const headroom = 4

// acquire adds a user to a new or known prompt if there are pages for the rest of all prompts and
// some to spare. So prompts alone never fill the cache: all of them can be computed even if no
// sequence decodes that would end or be preempted.
func (s *scheduler) acquire(p *prompt) bool {
	if p.users == 0 {
		s.match(p)
	}
	sequences := len(s.running) + 1
	need := max(sequences, min(headroom*sequences, len(s.pages.meta)/8))
	for _, other := range s.prompts {
		need += other.missing()
	}
	if p.users == 0 {
		need += p.missing()
	}
	if len(s.running) > 0 && need > s.pages.available() {
		if p.users == 0 {
			s.pages.dropChain(&p.chain)
		}
		return false
	}
	if p.users == 0 {
		s.prompts = append(s.prompts, p)
	}
	p.users++
	return true
}

// join inserts a sequence behind the sequences of its prompt, or else of its adapter. Neighbours
// read shared pages together, and one product applies their adapter.
func (s *scheduler) join(q *sequence) {
	at, among := len(s.running), false
	for i, other := range s.running {
		if other.request.adapter != q.request.adapter {
			continue
		}
		if alike := other.request.hash == q.request.hash; alike || !among {
			at, among = i+1, alike
		}
	}
	s.running = slices.Insert(s.running, at, q)
}

// count records how much of a completion's prompt was known. known means that other sequences wait
// for the same prompt.
func (s *scheduler) count(p *prompt, known bool) {
	s.inbox.record(func(stats *Stats) {
		switch {
		case known:
			stats.Hits++
			stats.Reused += int64(len(p.tokens))
			return
		case p.complete():
			stats.Hits++
		default:
			stats.Prompts++
		}
		stats.Reused += int64(p.done)
	})
}
