package sampler

import "slices"

// admit lets sequences in while there is room: those that were preempted first, then queued requests in order.
func (s *Sampler) admit() {
	for len(s.running) < s.opts.MaxSequences && len(s.preempted) > 0 {
		if q := s.preempted[0]; !s.comeBack(q) {
			return
		}
		s.preempted = slices.Delete(s.preempted, 0, 1)
	}
	for len(s.running) < s.opts.MaxSequences {
		r := s.first()
		if r == nil || !r.failed() && !s.start(r) {
			return
		}
		if r.admitted++; r.admitted == r.params.N || r.failed() {
			s.dequeue()
		}
	}
}

func (s *Sampler) first() *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.first()
}

// dequeue takes the first request off the queue.
func (s *Sampler) dequeue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.pop()
}

// start makes the request's next completion a sequence; false when pages are short.
func (s *Sampler) start(r *request) bool {
	p := s.current(r)
	known := p != nil
	if !known {
		p = newPrompt(r, r.prompt)
	}
	if !s.wait(p) {
		return false
	}
	s.count(p, known)
	s.join(s.newSequence(r, p))
	return true
}

// comeBack lets a sequence in again; false when pages are short. What it had is computed like a prompt, unless it is
// still there; its newest token, which has no K/V yet, is left.
func (s *Sampler) comeBack(q *sequence) bool {
	p := s.current(q.request)
	if len(q.tokens) > 0 {
		p = newPrompt(q.request, slices.Concat(q.request.prompt, q.tokens[:len(q.tokens)-1]))
		p.again = true
	} else if p == nil {
		p = newPrompt(q.request, q.request.prompt)
	}
	if !s.wait(p) {
		return false
	}
	q.prompt = p
	s.join(q)
	return true
}

// headroom is how many pages each sequence finds free when another one is let in, or all of them an eighth of the cache:
// so that none is preempted soon after.
const headroom = 4

// wait adds a user to a prompt, a new one or not, if there are pages for what it still misses, for what other prompts
// do, and some to spare. So prompts alone never fill the cache: without a sequence that decodes, and so will end or be
// preempted, all of them can be computed.
func (s *Sampler) wait(p *prompt) bool {
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
			s.pages.letGo(&p.chain)
		}
		return false
	}
	if p.users == 0 {
		s.prompts = append(s.prompts, p)
	}
	p.users++
	return true
}

// join adds a sequence behind those of its request's prompt, or else of its adapter: neighbours read the pages that they share, and are
// updated, together.
func (s *Sampler) join(q *sequence) {
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

// count keeps the statistics of a completion whose prompt others are waiting for, or is known in full or in part.
func (s *Sampler) count(p *prompt, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case known:
		s.stats.Hits++
		s.stats.Reused += int64(len(p.tokens))
		return
	case p.complete():
		s.stats.Hits++
	default:
		s.stats.Prompts++
	}
	s.stats.Reused += int64(p.done)
}
