package served

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/retry"
)

// sampler samples on servers. It implements trinity.Sampler, engine.Rescorer, engine.AdapterLoader,
// engine.WeightReceiver, weights.Resident, weights.Provable and weights.Sleeper.
type sampler struct {
	checker checker
	pool    *pool
	loader  loader
	idle    func() // closes connections that no request uses
}

// newSampler joins the parts of a sampler over one list of servers.
func newSampler(all *servers, c checker) *sampler {
	p := newPool(all)
	s := &sampler{checker: c, pool: p, loader: loader{
		pool: p, proofs: proofs{servers: all}, sleep: sleepControl{p}, others: others{servers: all},
	}}
	p.look, p.restore, p.rouse, p.complete = s.checker.look, s.loader.restore, s.loader.sleep.rouse, s.loader.complete
	return s
}

// Sample implements trinity.Sampler. Each completion is a request of its own. OnToken gets the tokens
// of a completion as they come if the server streams them with all that a reply needs, as vLLM does, and
// else when it has ended.
func (s *sampler) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	if err := s.checker.check(prompt.Tokens, &p); err != nil {
		return nil, err
	}
	collapsed, err := s.collapse(&prompt)
	if err != nil {
		return nil, err
	}
	other, named := s.loader.others.find(p.Adapter)
	if !named && p.Adapter != "" && p.Adapter != trinity.BaseAdapter {
		return nil, fmt.Errorf("%w %q on the servers", trinity.ErrUnknownAdapter, p.Adapter)
	}
	out := make([]trinity.Completion, max(1, p.N))
	eg, each := errgroup.WithContext(ctx)
	var telling sync.Mutex
	vocab := s.checker.vocab
	for i := range out {
		eg.Go(func() (err error) {
			q := &query{SamplingParams: p, prompt: prompt.Tokens, images: prompt.Images, collapsed: collapsed,
				eos: s.checker.eos, other: other.name}
			q.adapter = s.pool.servers.adapter && p.Adapter == ""
			q.N, q.Seed = 1, seedOf(p.Seed, i)
			if s.checker.router.Layers > 0 && !p.Untrained {
				q.routed, q.experts = true, prompt.Experts
				q.routedFrom = s.checker.router.known(q)
			}
			if p.OnToken != nil {
				q.OnToken = func(_ int, s trinity.Sampled) {
					telling.Lock()
					defer telling.Unlock()
					if s.Token >= 0 && int(s.Token) < vocab { // else checkAnswer refuses the reply
						s.Logprob = min(s.Logprob, 0) // as checkAnswer does
						p.OnToken(i, s)
						p.Tell(i, s)
					}
				}
			}
			if out[i], err = s.one(each, q); named {
				out[i].Versions = [2]int64{other.version, other.version}
			}
			if p.OnToken == nil {
				telling.Lock()
				defer telling.Unlock()
				for j := range out[i].Tokens {
					p.Tell(i, out[i].At(j))
				}
			}
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	if p.ScorePrompt && p.TopLogprobs == 0 && p.Adapter == "" && s.pool.servers.score() {
		scores, err := s.logprobs(ctx, &query{prompt: prompt.Tokens, images: prompt.Images, collapsed: collapsed})
		if err != nil {
			return nil, err
		}
		for i := range p.ScoreFrom {
			scores[i] = float32(math.NaN())
		}
		for i := range out {
			out[i].Prompt.Logprobs = scores
		}
	}
	return out, nil
}

// score reports whether all servers score tokens that they are given, under the policy.
func (l *servers) score() bool {
	return !l.adapter && !slices.ContainsFunc(l.all, func(s *server) bool {
		scorer, ok := s.endpoint.(scorer)
		return !ok || !scorer.scores(false)
	})
}

// check refuses requests that no server can answer, and sets MaxTokens.
func (c *checker) check(prompt []int32, p *trinity.SamplingParams) error {
	room := c.length - len(prompt)
	switch {
	case len(prompt) == 0:
		return errors.New("the prompt has no token")
	case room <= 0:
		return fmt.Errorf("the prompt has %d tokens, which leaves no room in the %d of the model's length", len(prompt), c.length)
	case len(p.PromptTargets) > 0 || p.PromptDraws > 0:
		return errors.New("servers score the prompt's own tokens alone: other ids and draws at its places need the embedded sampler (cpu)")
	case p.Constraint != nil:
		return fmt.Errorf("%w: servers know no masks of tokens; the embedded sampler (cpu) does", trinity.ErrConstraint)
	case p.ScoreFrom < 0 || p.ScoreFrom >= len(prompt):
		return fmt.Errorf("the prompt's scores begin at place %d: want 0 to %d", p.ScoreFrom, len(prompt)-1)
	}
	if what := p.Changed(); what != "" && c.record && !p.Untrained {
		return fmt.Errorf("%s for tokens that are trained on: %s: leave it out%s", what, isBiased, unbias)
	}
	for _, t := range prompt {
		if t < 0 || int(t) >= c.vocab {
			return fmt.Errorf("the prompt has token %d, and the vocabulary has %d", t, c.vocab)
		}
	}
	if p.MaxTokens <= 0 || p.MaxTokens > room {
		p.MaxTokens = room
	}
	return nil
}

// seedOf returns the seed of one of a request's completions, in 63 bits: servers refuse more.
func seedOf(seed uint64, i int) uint64 {
	if i > 0 {
		seed = trinity.Seed(seed, 0, "", i)
	}
	return seed & math.MaxInt64
}

// one asks for one completion.
func (s *sampler) one(ctx context.Context, q *query) (c trinity.Completion, err error) {
	var routed *answer
	err = s.pool.ask(ctx, q.prompt, func(ctx context.Context, target *server) (err error) {
		defer func() {
			if err != nil && q.told > 0 {
				err = partialReply{err}
			}
		}()
		before := s.pool.servers.now(target)
		a, err := target.sample(ctx, q)
		if err == nil {
			err = s.checker.checkAnswer(q, a)
		}
		if err != nil {
			return err
		}
		versions := [2]int64{before.version, s.pool.servers.now(target).next}
		if a.weights != nil && !s.pool.servers.adapter { // an adapter leaves the weights their name
			if versions, err = s.spans(a.weights, versions); err != nil {
				return err
			}
			if a.last {
				versions[0] = min(versions[0], before.version)
			}
		}
		if err := s.loader.proofs.settled(ctx, target, versions[1], before.failedLoads); err != nil {
			return err
		}
		c = trinity.Completion{
			Tokens: a.tokens, Logprobs: a.logprobs, TopLogprobs: a.top, FinishReason: a.finish, Versions: versions, Reused: a.reused,
			Changed: q.Constrains(),
		}
		routed = a
		s.pool.computed(q.prompt, a.tokens, target)
		q.tell(a)
		return nil
	})
	if err == nil && q.routed {
		if c.Experts, err = s.checker.router.of(q, routed); err != nil { // no other server would help, and the run can go on
			err = &trinity.RolloutError{Kind: trinity.FailedModel, Err: fmt.Errorf("a server of the policy: %w", err)}
		}
	}
	return c, err
}

// partialReply is the failure of a reply whose first tokens OnToken has got. Another server would give others.
type partialReply struct{ error }

// Unwrap returns the failure.
func (b partialReply) Unwrap() error { return b.error }

// spans returns the oldest and the newest version among the weights that the server names. A name
// that load has not given is of the weights with which the server started.
func (s *sampler) spans(names []string, counted [2]int64) ([2]int64, error) {
	of := [2]int64{math.MaxInt64, math.MinInt64}
	for _, name := range names {
		v, ok := s.pool.servers.versionOf(name)
		if !ok && s.pool.servers.wanted() != "" {
			return of, errRestarted
		}
		if !ok {
			return counted, nil
		}
		of = [2]int64{min(of[0], v), max(of[1], v)}
	}
	return of, nil
}

// checkAnswer refuses an answer that no correct server gives.
func (c *checker) checkAnswer(q *query, a *answer) error {
	n := len(a.tokens)
	switch {
	case a.finish != "stop" && a.finish != "length":
		return retry.Temporary(fmt.Errorf("it ended a reply for the reason %q", a.finish))
	case n == 0:
		return wrongf("it returned no token ids")
	case n > q.MaxTokens:
		return wrongf("it returned %d tokens, more than the %d that it was asked for", n, q.MaxTokens)
	case a.prompt != nil && !slices.Equal(a.prompt, q.prompt), a.promptLen > 0 && a.promptLen != len(q.prompt):
		return wrongf("it read another prompt than the token ids that it got: %d tokens for %d",
			max(len(a.prompt), a.promptLen), len(q.prompt))
	case (a.logprobs != nil || c.record) && len(a.logprobs) != n:
		return wrongf("it returned %d log-probabilities for %d tokens", len(a.logprobs), n)
	case q.TopLogprobs > 0 && len(a.top) != n:
		return wrongf("it returned the most likely tokens at %d places for %d tokens", len(a.top), n)
	}
	for _, t := range a.tokens {
		if t < 0 || int(t) >= c.vocab {
			return wrongf("it returned token %d, and the vocabulary has %d", t, c.vocab)
		}
	}
	for i, l := range a.logprobs {
		switch value := float64(l); {
		case math.IsNaN(value):
			return wrongf("it returned no log-probability of token %d of the reply", i)
		case value > 1e-3, math.IsInf(value, -1):
			return wrongf("it returned the log-probability %v", l)
		}
	}
	for i := range a.logprobs {
		a.logprobs[i] = min(a.logprobs[i], 0)
	}
	return nil
}

// mostLikely sorts the most likely tokens and keeps n.
func mostLikely(top []trinity.TokenLogprob, n int) []trinity.TokenLogprob {
	slices.SortFunc(top, func(a, b trinity.TokenLogprob) int {
		switch {
		case a.Logprob != b.Logprob && a.Logprob > b.Logprob:
			return -1
		case a.Logprob != b.Logprob:
			return 1
		}
		return int(a.Token - b.Token)
	})
	return top[:min(n, len(top))]
}

// Resident implements weights.Resident: the servers keep their weights when a run ends.
func (*sampler) Resident() {}

// What follows is done by a part each.

func (s *sampler) Adapters() []string              { return s.loader.others.names() }
func (s *sampler) Prove(proving engine.Proving)    { s.loader.proofs.begin(proving) }
func (s *sampler) Sleep(ctx context.Context) error { return s.loader.sleep.sleepAll(ctx) }
func (s *sampler) Wake(ctx context.Context) error  { return s.loader.sleep.rouseAll(ctx) }

// Close implements io.Closer. The servers run on, without the adapters of this sampler.
func (s *sampler) Close() error {
	s.pool.close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, target := range s.pool.servers.all {
		target.release(ctx)
	}
	s.idle()
	s.pool.servers.own.close()
	return nil
}
