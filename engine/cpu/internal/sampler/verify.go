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

// measure records how long the step took, and what its drafts have brought.
func (s *scheduler) measure(took time.Duration) {
	decoding, rows := len(s.grouped), len(s.batch.tokens)
	if s.drafter == nil || decoding == 0 {
		return
	}
	alone := len(s.draws) == rows && len(s.batch.headAdapters) == rows // no rows of prompts
	drafted, accepted := 0, 0
	for i := range s.draws {
		d := &s.draws[i]
		if i > 0 && d.sequence == s.draws[i-1].sequence {
			drafted++
			if d.drawn {
				accepted++
			}
		}
	}
	saved := 0.0
	if alone {
		s.drafter.pace.record(rows, took)
		if drafted > 0 {
			saved = float64(decoding+accepted)/float64(decoding)*float64(s.drafter.pace.of(decoding)) - took.Seconds()
		}
	}
	s.inbox.record(func(stats *Stats) {
		stats.Drafted += int64(drafted)
		stats.Accepted += int64(accepted)
		stats.Saved += time.Duration(saved * float64(time.Second))
	})
}
