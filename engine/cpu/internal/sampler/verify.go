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

// continues reports whether the step has drawn another token of the sequence of draw i behind it.
func continues(draws []draw, i int) bool {
	return i+1 < len(draws) && draws[i+1].drawn && draws[i+1].sequence == draws[i].sequence
}

// drawnFrom returns the number of tokens that the sequence of a first draw has drawn.
func drawnFrom(draws []draw, first int) (n int) {
	for n = 1; continues(draws, first+n-1); {
		n++
	}
	return n
}

// fill files the page that the token at a position completes, if it does, in the given step.
func (q *sequence) fill(p *pages, position int, step int64) {
	if page := position / pageTokens; position%pageTokens == pageTokens-1 {
		tokens := q.tokensOf(page)
		p.filled(&q.chain, q.chain.pages[page], tokens[:], step)
	}
}

// settle files the pages that accepted drafts fill, after a step that has drawn so many tokens, and
// gives back those of the other drafts. Their K/V stay in the sequence's last page until those of the
// tokens at their places replace them.
func (q *sequence) settle(p *pages, drawn int, step int64) {
	position := q.position()
	for i := position - drawn + 1; i < position; i++ {
		q.fill(p, i, step)
	}
	for keep := pagesFor(position); len(q.chain.pages) > keep; {
		p.drop(q.chain.last())
		q.chain.pages = q.chain.pages[:len(q.chain.pages)-1]
	}
}

// outcome is what drafts have brought.
type outcome struct {
	verified, accepted int
	saved              time.Duration
}

// measure records how long a step took, and returns what its drafts have brought.
func (d *drafter) measure(decoding int, b *batch, draws []draw, took time.Duration) (of outcome) {
	if d == nil || decoding == 0 {
		return of
	}
	for i := range draws {
		if x := &draws[i]; i > 0 && x.sequence == draws[i-1].sequence {
			of.verified++
			if x.drawn {
				of.accepted++
			}
		}
	}
	rows := len(b.tokens)
	if rows != decoding+of.verified || len(draws) > rows {
		return of // prompts took a part of the time
	}
	if d.pace.record(rows, took); of.verified > 0 && d.pace.rows[decoding].n > 0 {
		plain := float64(d.pace.rows[decoding].seconds) * float64(decoding+of.accepted) / float64(decoding)
		of.saved = time.Duration(plain*float64(time.Second)) - took
	}
	return of
}
