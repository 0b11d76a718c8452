package sampler

import (
	"cmp"
	"slices"
)

// plan fills the step's rows: the newest token of every completion with its drafts, then prompt tokens in
// order of arrival. It returns the number of prompt tokens.
func (s *scheduler) plan() int {
	b := &s.batch
	b.reset()
	s.draws, s.fresh, s.scored = s.draws[:0], s.fresh[:0], s.scored[:0]
	s.reserve()
	s.grouped = byAdapter(s.grouped, s.running)
	s.grouped = slices.DeleteFunc(s.grouped, func(q *sequence) bool { return q.prompt != nil })
	s.chooseDrafts()
	for _, q := range s.grouped {
		s.draws = b.addNext(q, s.draws)
		q.fill(&s.pages, q.position(), s.steps)
	}
	budget := s.opts.PrefillChunk
	for _, p := range s.prompts {
		if !p.complete() && budget > 0 {
			budget -= s.planPrompt(p, budget)
		}
	}
	return s.opts.PrefillChunk - budget
}

// addNext adds the row of a completion's newest token and those of its drafts, and appends their draws.
func (b *batch) addNext(q *sequence, draws []draw) []draw {
	a, position := q.request.adapter, q.position()
	q.chain.oldest = min(q.chain.oldest, a.version)
	draws = append(draws, draw{sequence: q, row: len(b.heads)})
	b.heads = append(b.heads, b.add(a, q.tokens[len(q.tokens)-1], position, &q.chain))
	for i, draft := range q.drafts[:q.verified] {
		draws = append(draws, draw{sequence: q, row: len(b.heads)})
		b.heads = append(b.heads, b.add(a, draft.token, position+1+i, &q.chain))
	}
	return draws
}

// byAdapter returns the sequences with those of an adapter as neighbours, so that a step reads the weights of each adapter
// once. Sequences of one prompt stay neighbours.
func byAdapter(dst, running []*sequence) []*sequence {
	dst = append(dst[:0], running...)
	slices.SortStableFunc(dst, func(a, b *sequence) int { return cmp.Compare(a.request.adapter.root, b.request.adapter.root) })
	return dst
}

// planPrompt adds up to budget rows of a prompt, as long as there are pages, and returns their
// number.
func (s *scheduler) planPrompt(p *prompt, budget int) int {
	s.reuse(p)
	b, first := &s.batch, p.done
	if end := p.done + budget; end < len(p.tokens) && end/pageTokens > first/pageTokens {
		budget -= end % pageTokens // end at a page boundary, because prefixes are found by whole pages
	}
	for !p.complete() && p.done-first < budget {
		if p.done/pageTokens == len(p.chain.pages) && !s.pages.extend(&p.chain) {
			break
		}
		p.chain.oldest = min(p.chain.oldest, p.adapter.version)
		row := b.add(p.adapter, p.tokens[p.done], p.done, &p.chain)
		if p.reusable() <= 0 && p.done+1 < len(p.tokens) {
			s.scored = append(s.scored, scored{p, p.done, len(b.heads)})
			b.heads = append(b.heads, row)
		}
		if p.done++; p.done%pageTokens == 0 {
			at := p.done/pageTokens - 1
			s.pages.filled(&p.chain, p.chain.pages[at], p.tokens[at*pageTokens:p.done], s.steps)
		}
	}
	if p.complete() && p.done > first && !p.resumes {
		p.headRow = len(b.heads)
		b.heads = append(b.heads, len(b.tokens)-1)
		s.fresh = append(s.fresh, p)
	}
	return p.done - first
}

// reuse advances a prompt over tokens whose K/V are known by now.
func (s *scheduler) reuse(p *prompt) {
	reused := s.match(p)
	reused += s.copySimilar(p)
	if p.resumes || reused == 0 {
		return
	}
	s.inbox.record(func(stats *Stats) { stats.Reused += int64(reused) })
}
