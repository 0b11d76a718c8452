package sampler

import (
	"slices"

	"github.com/trinity-go/trinity"
)

// sequence is a completion in progress. It belongs to the scheduler, which reuses its buffers.
type sequence struct {
	request  *request
	index    int       // of the completion
	prompt   *prompt   // that it waits for or will start from; nil once it has its own chain
	chain    chain     // K/V of prompt and completion
	tokens   []int32   // [n] sampled
	logprobs []float32 // [n]
	tops     [][]trinity.TokenLogprob
	versions [2]int64
	shares   bool   // its prompt is another sequence's too, which came before
	reused   int    // tokens of its prompt that needed no computing
	reason   string // why it is finished; "" until then
	broken   error  // of a constraint that cannot follow the text
	query    query
	seen     tokenSet      // tokens under the repetition penalty; empty without one
	places   map[int32]int // of tokens in query.counts; nil without presence and frequency penalties
	drafting
}

// newSequence returns the next completion of a request as a sequence.
func (s *scheduler) newSequence(r *request, p *prompt) *sequence {
	q := &sequence{}
	if n := len(s.spare); n > 0 {
		q, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	*q = sequence{
		request: r, index: r.admitted, prompt: p, chain: chain{pages: q.chain.pages[:0]}, seen: q.seen,
		tokens: slices.Grow(q.tokens[:0], r.length), logprobs: slices.Grow(q.logprobs[:0], r.length),
		drafting: drafting{drafts: q.drafts[:0]},
		query: query{
			temperature: r.params.Temperature, topK: r.params.TopK, topP: r.params.TopP, minP: r.params.MinP, penalty: r.params.RepetitionPenalty,
			bias: r.bias, presence: r.params.PresencePenalty, frequency: r.params.FrequencyPenalty,
		},
	}
	if r.params.Constraint != nil {
		q.query.constraint = r.params.Constraint.Fork()
	}
	if q.query.presence != 0 || q.query.frequency != 0 {
		q.places = map[int32]int{}
	}
	q.seen.clear()
	if q.query.penalty != 1 {
		q.seen.grow(s.model.cfg.VocabSize, len(r.prompt)+r.length)
		for _, t := range r.prompt {
			q.seen.add(t)
		}
	}
	return q
}

// position returns the position of the newest token, counted from 0 at the prompt's first.
func (q *sequence) position() int { return len(q.request.prompt) + len(q.tokens) - 1 }

// tokensOf returns the tokens of a page of the sequence, as far as it has them.
func (q *sequence) tokensOf(page int) (tokens [pageTokens]int32) {
	at, prompt := page*pageTokens, q.request.prompt
	n := 0
	if at < len(prompt) {
		n = copy(tokens[:], prompt[at:])
	}
	copy(tokens[n:], q.tokens[at+n-len(prompt):])
	return tokens
}

// prepare sets the query for the next token.
func (q *sequence) prepare() {
	q.query.u = uniform(q.request.params.Seed, q.index, len(q.tokens), ofCompletion)
	q.query.seen = q.seen.tokens
	q.query.forbidden = nil
	if len(q.tokens) < q.request.params.MinTokens {
		q.query.forbidden = q.request.stops
	}
}

// add appends a token drawn with weights of a version.
func (q *sequence) add(d *draw, version int64) {
	if len(q.tokens) == 0 {
		q.versions = [2]int64{min(version, q.prompt.chain.oldest), version}
		if q.reused = q.prompt.reused; q.shares {
			q.reused = len(q.request.prompt)
		}
	}
	q.versions[0], q.versions[1] = min(q.versions[0], version), max(q.versions[1], version)
	q.tokens = append(q.tokens, d.token)
	q.logprobs = append(q.logprobs, d.logprob)
	if d.top != nil {
		q.tops = append(q.tops, d.top)
	}
	if q.query.penalty != 1 {
		q.seen.add(d.token)
	}
	if q.places != nil {
		q.count(d.token)
	}
	if q.query.constraint != nil {
		q.broken = q.query.constraint.Accept(d.token)
	}
}

// tally is how often a completion has a token.
type tally struct{ token, n int32 }

func (q *sequence) count(token int32) {
	at, known := q.places[token]
	if !known {
		at = len(q.query.counts)
		q.places[token], q.query.counts = at, append(q.query.counts, tally{token: token})
	}
	q.query.counts[at].n++
}

// finish returns why the completion ends with its newest token; "" if it does not end.
func (q *sequence) finish(token int32, decode func([]int32) string) string {
	r := q.request
	if len(q.tokens) >= r.params.MinTokens {
		_, stops := slices.BinarySearch(r.stops, token)
		if stops || len(r.params.Stop) > 0 && r.stopped(q.tokens, decode) {
			return "stop"
		}
	}
	if len(q.tokens) == r.length {
		return "length"
	}
	return ""
}

// complete stores the completion, with its experts, in its request and reports whether it was the last one.
func (q *sequence) complete(experts []byte) bool {
	r := q.request
	r.completions[q.index] = trinity.Completion{
		Tokens: slices.Clone(q.tokens), Logprobs: slices.Clone(q.logprobs), TopLogprobs: q.tops, FinishReason: q.reason, Versions: q.versions,
		Reused: q.reused, Changed: r.params.Constrains(), Experts: experts,
	}
	if r.scores != nil {
		r.completions[q.index].Prompt = r.scores.PromptScores
	}
	r.remaining--
	return r.remaining == 0 && !r.failed()
}

// tokenSet is a set of tokens, with a list of its members.
type tokenSet struct {
	tokens []int32
	marks  []uint64 // [V/64] one bit per token
}

func (t *tokenSet) clear() {
	t.tokens = t.tokens[:0]
	clear(t.marks)
}

// grow makes room for up to n tokens.
func (t *tokenSet) grow(vocab, n int) {
	if t.marks == nil {
		t.marks = make([]uint64, (vocab+63)/64)
	}
	t.tokens = slices.Grow(t.tokens, min(n, vocab))
}

func (t *tokenSet) add(token int32) {
	word, bit := token/64, uint64(1)<<(token%64)
	if t.marks[word]&bit == 0 {
		t.marks[word] |= bit
		t.tokens = append(t.tokens, token)
	}
}
