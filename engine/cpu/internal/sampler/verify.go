package sampler

import "time"

// drafting is what a sequence knows of its drafts.
type drafting struct {
	text     text
	drafts   []draft // behind the newest token
	verified int     // of them, those that the step verifies
	chance   float32 // that all of these and the next one are drawn
}

// chooseDrafts sets which drafts of the decoding sequences the step verifies, and reserves pages for
// them. It takes no page that a prompt will need or a rollout keeps.
func (s *scheduler) chooseDrafts() {
	if s.drafter == nil {
		return
	}
	s.drafter.choose(s.grouped, s.opts.decodedRows()-len(s.running))
	spare := s.pages.available() - s.pages.kept.n
	for _, p := range s.prompts {
		spare -= p.missing()
	}
	for _, q := range s.grouped {
		for last := q.position() + q.verified; last/pageTokens >= len(q.chain.pages); spare-- {
			if spare <= 0 || !s.pages.extend(&q.chain) {
				q.verified = len(q.chain.pages)*pageTokens - 1 - q.position()
				break
			}
		}
	}
}

// drawFrom draws the tokens of the sequence of draw i, until one differs from the draft behind it, or
// ends the completion. Each has the random number and the state of its place, so they are the tokens
// that steps without drafts draw.
func (s *scheduler) drawFrom(d *drawer, i int) {
	if s.logitsOf(s.draws[i].row) == nil {
		return
	}
	q := s.draws[i].sequence
	for n := 0; n == 0 || q.drafts[n-1].token == s.draws[i+n-1].token; n++ {
		x := &s.draws[i+n]
		q.prepare()
		logits := s.logitsOf(x.row)
		x.token, x.logprob = d.draw(logits, &q.query)
		if x.drawn = true; x.token < 0 {
			return
		}
		if top := q.request.params.TopLogprobs; top > 0 {
			x.top = d.top(logits, top, q.query.temperature)
		}
		if q.add(x, q.request.adapter.version); q.broken == nil {
			q.reason = q.finish(x.token, s.opts.Decode)
		}
		if q.reason != "" || q.broken != nil || n == q.verified {
			return
		}
	}
}

// continues reports whether the step draws another token of the sequence of draw i behind it.
func (s *scheduler) continues(i int) bool {
	return i+1 < len(s.draws) && s.draws[i+1].drawn && s.draws[i+1].sequence == s.draws[i].sequence
}

// settle files the pages that accepted drafts fill, gives back those of the others, and returns the
// number of tokens that the sequence of a first draw has drawn. The K/V of other drafts stay in its last page
// until those of the tokens at their places replace them.
func (s *scheduler) settle(first int) (drawn int) {
	q := s.draws[first].sequence
	for drawn = 1; s.continues(first + drawn - 1); {
		drawn++
	}
	if s.drafter == nil || s.draws[first+drawn-1].token < 0 {
		return drawn
	}
	tokens := q.tokens[len(q.tokens)-drawn:]
	s.drafter.judge(q, tokens)
	s.drafter.learn(q, tokens)
	if q.verified == 0 {
		return drawn
	}
	position := q.position()
	for i := position - drawn + 1; i < position; i++ {
		s.fill(q, i)
	}
	for keep := pagesFor(position); len(q.chain.pages) > keep; {
		s.pages.drop(q.chain.last())
		q.chain.pages = q.chain.pages[:len(q.chain.pages)-1]
	}
	return drawn
}

// outcome is what drafts have brought.
type outcome struct {
	verified, accepted int
	saved              time.Duration
}

// measure records how long the step took, and returns what its drafts have brought.
func (s *scheduler) measure(took time.Duration) (of outcome) {
	decoding, rows := len(s.grouped), len(s.batch.tokens)
	if s.drafter == nil || decoding == 0 {
		return of
	}
	for i := range s.draws {
		if d := &s.draws[i]; i > 0 && d.sequence == s.draws[i-1].sequence {
			of.verified++
			if d.drawn {
				of.accepted++
			}
		}
	}
	if len(s.draws) > rows || len(s.batch.headAdapters) > rows || s.draws[len(s.draws)-1].row != rows-1 {
		return of // prompts took a part of the time
	}
	pace := &s.drafter.pace
	if pace.record(rows, took); of.verified > 0 {
		plain := float64(pace.of(decoding)) * float64(decoding+of.accepted) / float64(decoding)
		of.saved = time.Duration(plain*float64(time.Second)) - took
	}
	return of
}
