package tinker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// sampler samples from versions of an adapter, and from its base. It implements trinity.Sampler, engine.Rescorer and weights.Loader.
type sampler struct {
	link   *link
	spec   engine.SamplerSpec
	beside *trainer // that gives it its versions; nil if it loads them

	loading sync.Mutex // one session is begun at a time
	mu      sync.Mutex
	now     serving // that requests without an adapter sample from
	base    serving
	closed  bool
}

// serving is a session that samples from a version.
type serving struct {
	session *tinker.Sampling // nil if there is none
	path    string
	version int64
}

func newSampler(l *link, spec engine.SamplerSpec) *sampler { return &sampler{link: l, spec: spec} }

// path returns the checkpoint from which the sampler samples.
func (s *sampler) path() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.path
}

// use brings a version into use. Requests in flight stay with theirs.
func (s *sampler) use(ctx context.Context, version int64, path string) error {
	session, err := s.link.SampleFrom(ctx, "", path)
	if err != nil {
		return broken(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = serving{session, path, version}
	return nil
}

// LoadWeights implements weights.Loader: the directory names a checkpoint of the service.
func (s *sampler) LoadWeights(ctx context.Context, dir string, version int64) error {
	path, err := referenced(dir)
	if err != nil {
		return err
	}
	ctx, cancel := s.link.limited(ctx)
	defer cancel()
	return s.use(ctx, version, path)
}

// serve returns the session for an adapter.
func (s *sampler) serve(ctx context.Context, adapter string) (serving, error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.mu.Lock()
	now, base, closed := s.now, s.base, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return serving{}, errClosed
	case adapter != "" && adapter != trinity.BaseAdapter:
		return serving{}, fmt.Errorf("%w %q at the service", trinity.ErrUnknownAdapter, adapter)
	case adapter == "" && now.session != nil:
		return now, nil
	case adapter == "" && s.beside != nil:
		if err := s.beside.first(ctx); err != nil {
			return serving{}, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now, nil
	case base.session != nil:
		return base, nil
	}
	session, err := s.link.SampleFrom(ctx, s.spec.Service.BaseModel, "") // a new adapter changes nothing
	if err != nil {
		return serving{}, broken(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base = serving{session: session}
	return s.base, nil
}

// Sample implements trinity.Sampler. OnToken gets the tokens at the end: the API has no streams.
func (s *sampler) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	if err := engine.CheckPrompt(&prompt, "a service with Tinker's API"); err != nil {
		return nil, err
	}
	in, err := s.request(prompt.Tokens, &p)
	if err != nil {
		return nil, err
	}
	limited, cancel := s.link.limited(ctx)
	defer cancel()
	from, err := s.serve(limited, p.Adapter)
	if err != nil {
		return nil, ended(ctx, err)
	}
	reply, err := from.session.Sample(limited, *in)
	if err != nil {
		return nil, ended(ctx, broken(err))
	}
	scores := trinity.PromptScores{}
	if p.ScorePrompt {
		if scores, err = s.promptScores(reply, len(prompt.Tokens), &p); err != nil {
			return nil, err
		}
	}
	out := make([]trinity.Completion, len(reply.Sequences))
	for i := range out {
		c, err := s.completion(&reply.Sequences[i], &p)
		if err != nil {
			return nil, err
		}
		c.Prompt, c.Versions, c.Reused = scores, [2]int64{from.version, from.version}, int(reply.CachedPrompt)
		out[i] = c
		for t := range c.Tokens {
			token := c.At(t)
			p.Tell(i, token)
			if p.OnToken != nil {
				p.OnToken(i, token)
			}
		}
	}
	return out, nil
}

// ended returns the cause of a call that has ended, else err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// request returns a request as the API has it. What the API does not have is an error.
func (s *sampler) request(prompt []int32, p *trinity.SamplingParams) (*tinker.Sample, error) {
	room := s.spec.MaxModelLen - len(prompt)
	if s.spec.MaxModelLen == 0 {
		room = s.link.cfg.MaxPositions - len(prompt)
	}
	others := *p
	others.TopP, others.TopK = 0, 0
	switch {
	case len(prompt) == 0:
		return nil, errors.New("the prompt has no token")
	case room <= 0 && !p.ScorePrompt:
		return nil, fmt.Errorf("the prompt has %d tokens, which leaves no room in the %d of model.max_model_len", len(prompt), len(prompt)+room)
	case p.Constraint != nil:
		return nil, fmt.Errorf("%w: a service of the Tinker API knows no masks of tokens", trinity.ErrConstraint)
	case others.Changed() != "":
		return nil, fmt.Errorf("%s: a service has temperature, top_p and top_k alone: leave it out", others.Changed())
	case p.PromptTargets != nil || p.PromptDraws > 0:
		return nil, errors.New("tinker: a prompt's targets and draws are not asked of a service")
	case slices.Contains(p.Stop, ""):
		return nil, errors.New("an empty stop string would end every completion at once")
	case len(p.Stop) > 0 && s.spec.Text == nil:
		return nil, errors.New("tinker: stop strings need a tokenizer: SamplerSpec.Text is nil")
	}
	for _, t := range prompt {
		if t < 0 || int(t) >= s.link.cfg.VocabSize {
			return nil, fmt.Errorf("the prompt has token %d, and the vocabulary has %d", t, s.link.cfg.VocabSize)
		}
	}
	cut := 64 - s.link.SeedBits
	n, seed, temperature, topK, topP := max(1, room), tinker.Seed(p.Seed<<cut>>cut), p.Temperature, -1, float32(1)
	if p.MaxTokens > 0 {
		n = min(n, p.MaxTokens)
	}
	if p.TopK > 0 {
		topK = p.TopK
	}
	if p.TopP != 0 {
		topP = p.TopP
	}
	in := &tinker.Sample{
		NumSamples: max(1, p.N), Prompt: textPrompt(prompt), PromptLogprobs: p.ScorePrompt, TopSampleLogprobs: p.TopLogprobs,
		Params: tinker.SamplingParams{MaxTokens: &n, Seed: &seed, Temperature: &temperature, TopK: &topK, TopP: &topP},
	}
	if p.ScorePrompt {
		in.TopPromptLogprobs = p.TopLogprobs
		if last := len(prompt) - 1 - p.ScoreFrom; p.ScoreFrom > 0 && last > 0 {
			in.PromptLogprobsLast = &last
		}
	}
	stops, isOther := s.stopTokens(p), func(t int32) bool { return !slices.Contains(s.link.cfg.EOS, t) }
	if p.IgnoreEOS || slices.ContainsFunc(stops, isOther) {
		in.Params.Stop = &tinker.Stop{Tokens: stops}
	} // else the service stops at the model's own tokens
	return in, nil
}

// stopTokens returns the tokens that end a completion: the request's, and the model's unless IgnoreEOS takes those away.
func (s *sampler) stopTokens(p *trinity.SamplingParams) []int32 {
	stops := append([]int32{}, p.StopTokens...)
	if !p.IgnoreEOS {
		return append(stops, s.link.cfg.EOS...)
	}
	return slices.DeleteFunc(stops, func(t int32) bool { return slices.Contains(s.link.cfg.EOS, t) })
}

func textPrompt(tokens []int32) tinker.Prompt {
	return tinker.Prompt{Chunks: []tinker.PromptChunk{{Type: "encoded_text", Tokens: tokens}}}
}

// completion checks a sequence of the service. The API takes stop tokens or stop strings: the strings are looked for here.
func (s *sampler) completion(q *tinker.Sequence, p *trinity.SamplingParams) (c trinity.Completion, err error) {
	n := len(q.Tokens)
	switch {
	case n == 0:
		return c, s.wrong("a sequence without tokens")
	case p.MaxTokens > 0 && n > p.MaxTokens:
		return c, s.wrong("%d tokens, and %d were asked for", n, p.MaxTokens)
	case len(q.Logprobs) != n:
		return c, s.wrong("%d log-probabilities for %d tokens", len(q.Logprobs), n)
	}
	for i, token := range q.Tokens {
		if token < 0 || int(token) >= s.link.cfg.VocabSize {
			return c, s.wrong("token %d, and the vocabulary has %d", token, s.link.cfg.VocabSize)
		}
		if v := float64(q.Logprobs[i]); math.IsNaN(v) || math.IsInf(v, 0) || v > 1e-3 {
			return c, s.wrong("the log-probability %v", v)
		}
		q.Logprobs[i] = min(q.Logprobs[i], 0)
	}
	c = trinity.Completion{Tokens: q.Tokens, Logprobs: q.Logprobs, FinishReason: "stop"}
	if q.ReachedLength {
		c.FinishReason = "length"
	}
	if p.TopLogprobs > 0 {
		if c.TopLogprobs = rows(q.Top); len(c.TopLogprobs) != n {
			return c, s.wrong("the most likely tokens at %d places for %d tokens", len(c.TopLogprobs), n)
		}
	}
	if at, ends := s.stopped(q.Tokens, p); ends {
		c.Tokens, c.Logprobs, c.FinishReason = c.Tokens[:at], c.Logprobs[:at], "stop"
		c.TopLogprobs = c.TopLogprobs[:min(at, len(c.TopLogprobs))]
	}
	return c, nil
}

// stopped returns how many tokens there are up to the first stop token, or the one that completes a stop string, and whether
// there is one.
func (s *sampler) stopped(tokens []int32, p *trinity.SamplingParams) (n int, ends bool) {
	stops := s.stopTokens(p)
	for n := range tokens {
		if slices.Contains(stops, tokens[n]) {
			return n + 1, true
		}
		if len(p.Stop) == 0 {
			continue
		}
		text := s.spec.Text(tokens[:n+1])
		if slices.ContainsFunc(p.Stop, func(stop string) bool { return strings.Contains(text, stop) }) {
			return n + 1, true
		}
	}
	return len(tokens), false
}

// wrong returns an error for an answer that no correct service gives.
func (s *sampler) wrong(format string, args ...any) error {
	return &trinity.EngineError{Err: fmt.Errorf("tinker: %s gave "+format, append([]any{s.link.Service}, args...)...)}
}

// rows returns the most likely tokens of each place.
func rows(top *tinker.Top) [][]trinity.TokenLogprob {
	if top == nil {
		return nil
	}
	all := make([][]trinity.TokenLogprob, top.Length)
	for i := range all {
		for j := range int(top.K) {
			if at := i*int(top.K) + j; top.Logprobs[at] != tinker.NoLogprob {
				all[i] = append(all[i], trinity.TokenLogprob{Token: top.Tokens[at], Logprob: top.Logprobs[at]})
			}
		}
	}
	return all
}

// promptScores returns what a reply says of the prompt.
func (s *sampler) promptScores(reply *tinker.Samples, n int, p *trinity.SamplingParams) (scores trinity.PromptScores, err error) {
	if len(reply.PromptLogprobs) != n {
		return scores, s.wrong("%d log-probabilities of a prompt of %d tokens", len(reply.PromptLogprobs), n)
	}
	scores.Logprobs = reply.PromptLogprobs[1:]
	before := min(p.ScoreFrom, n-1)
	for i := range before {
		scores.Logprobs[i] = float32(math.NaN())
	}
	if p.TopLogprobs > 0 {
		likely := rows(reply.PromptTop)
		if len(likely) != n {
			return scores, s.wrong("the most likely tokens at %d places of a prompt of %d tokens", len(likely), n)
		}
		scores.TopLogprobs = likely[1:]
		clear(scores.TopLogprobs[:before])
	}
	return scores, nil
}

// promptLogprobs returns the log-probability of each token after the first.
func promptLogprobs(ctx context.Context, from *tinker.Sampling, tokens []int32) ([]float32, error) {
	one, cold := 1, float32(1)
	reply, err := from.Sample(ctx, tinker.Sample{
		NumSamples: 1, Prompt: textPrompt(tokens), PromptLogprobs: true, Params: tinker.SamplingParams{MaxTokens: &one, Temperature: &cold},
	})
	if err != nil {
		return nil, err
	}
	if len(reply.PromptLogprobs) != len(tokens) {
		return nil, fmt.Errorf("%d log-probabilities of a prompt of %d tokens", len(reply.PromptLogprobs), len(tokens))
	}
	return reply.PromptLogprobs[1:], nil
}

// Logprobs implements engine.Rescorer.
func (s *sampler) Logprobs(ctx context.Context, tokens []int32) ([]float32, error) {
	limited, cancel := s.link.limited(ctx)
	defer cancel()
	from, err := s.serve(limited, "")
	if err != nil {
		return nil, ended(ctx, err)
	}
	logprobs, err := promptLogprobs(limited, from.session, tokens)
	return logprobs, ended(ctx, broken(err))
}

// Close ends the session, unless the engine uses it.
func (s *sampler) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.link.release()
}
