package sampler

import (
	"slices"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// admit turns queued requests into sequences, in order, while there is room.
func (s *Sampler) admit() {
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
	if len(s.queue) == 0 {
		return nil
	}
	return s.queue[0]
}

// dequeue takes the first request off the queue.
func (s *Sampler) dequeue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue[0] = nil
	s.queue = s.queue[1:]
}

// start makes the request's next completion a sequence; false when K/V rows are short.
func (s *Sampler) start(r *request) bool {
	p := s.prompts.find(r.hash, r.prompt)
	hit := p != nil
	if hit {
		p.users++ // nor may it make room for this sequence
	}
	own, ok := s.prompts.take(r.length)
	if ok && !hit {
		if p = s.startPrompt(r); p == nil {
			s.prompts.rows.give(own)
			return false
		}
	}
	if !ok {
		if hit {
			p.users--
		}
		return false
	}
	s.count(p, hit)
	s.join(s.newSequence(r, p, own))
	return true
}

// join adds a sequence behind those of its prompt: neighbours read the prompt's K/V together.
func (s *Sampler) join(q *sequence) {
	at := len(s.running)
	for i, other := range s.running {
		if other.prompt == q.prompt {
			at = i + 1
		}
	}
	s.running = slices.Insert(s.running, at, q)
}

// startPrompt makes room for the request's prompt, and copies what it has in common with another one; nil when K/V rows
// are short.
func (s *Sampler) startPrompt(r *request) *prompt {
	rows, ok := s.prompts.take(len(r.prompt))
	if !ok {
		return nil
	}
	p := &prompt{tokens: r.prompt, hash: r.hash, rows: rows, users: 1, hidden: make([]float32, s.cfg.HiddenSize)}
	if like, common := s.prompts.similar(r.prompt); like != nil {
		s.model.cache.copy(rows.start, like.rows.start, common)
		p.done = common
	}
	s.prompts.prompts = append(s.prompts.prompts, p)
	return p
}

// copy copies n rows of all layers.
func (c *cache) copy(to, from, n int) {
	for layer := range c.keys {
		for _, m := range []kernel.Matrix{c.keys[layer], c.values[layer]} {
			copy(m.Data[to*m.Stride:(to+n)*m.Stride], m.Data[from*m.Stride:(from+n)*m.Stride])
		}
	}
}

func (s *Sampler) count(p *prompt, hit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hit {
		s.stats.Hits++
		s.stats.Reused += int64(len(p.tokens))
		return
	}
	s.stats.Prompts++
	s.stats.Reused += int64(p.done)
}
