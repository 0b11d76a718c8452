package served

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/retry"
)

// scorer is an endpoint whose servers can score given tokens.
type scorer interface {
	// scores reports whether the server can. alone says that it has nothing else to do meanwhile.
	scores(alone bool) bool
	// score is an engine.ScoreTokens.
	score(ctx context.Context, tokens []int32) ([]float32, error)
}

// proofs prove that servers have the weights that they were given.
type proofs struct {
	servers *servers
	model   string         // directory of the model with which servers start
	proving engine.Proving // without Check, deliveries are not proven
	loads   int            // versions that were loaded
	agreed  agreed
}

// proof is what is proven of a server.
type proof struct {
	proven      chan struct{} // closed when version next is proven, or has failed; nil otherwise
	disproved   bool          // it has not the weights that it was given last
	failedLoads int           // deliveries that have failed
}

// Logprobs implements engine.Rescorer.
func (s *sampler) Logprobs(ctx context.Context, tokens []int32) (logprobs []float32, err error) {
	return s.logprobs(ctx, &query{prompt: tokens})
}

// logprobs scores the prompt of a query.
func (s *sampler) logprobs(ctx context.Context, q *query) (logprobs []float32, err error) {
	ctx, cancel := within(ctx, s.pool.servers.patience, "no server has scored a sequence within %v", s.pool.servers.patience)
	defer cancel()
	q.N, q.MaxTokens, q.Temperature = 1, 1, 1
	err = s.pool.ask(ctx, q.prompt, func(ctx context.Context, target *server) (err error) {
		logprobs, err = scored(ctx, target, q)
		return err
	})
	return logprobs, err
}

// scored returns how a server scores the prompt of a query.
func scored(ctx context.Context, s *server, q *query) (logprobs []float32, err error) {
	scorer, ok := s.endpoint.(scorer)
	seer, sees := s.endpoint.(sighted)
	switch {
	case !ok || !scorer.scores(false):
		return nil, errors.New("it scores no tokens that it is given")
	case len(q.images) > 0 && sees:
		logprobs, err = seer.sight().scoreShown(ctx, q)
	default:
		logprobs, err = scorer.score(ctx, q.prompt)
	}
	for i, l := range logprobs {
		if !(l <= 1e-3) || math.IsInf(float64(l), -1) {
			return nil, wrongf("it returned the log-probability %v of token %d of the prompt", l, i+1)
		}
	}
	return logprobs, err
}

var (
	failLoad   = failpoint.New("served.load")   // before a server loads a version
	failLoaded = failpoint.New("served.loaded") // when it has loaded the version, before the proof
)

// mostDeliveries are the deliveries of a version to one server until it is left out.
const mostDeliveries = 3

// begin makes servers prove from now on what they load.
func (p *proofs) begin(proving engine.Proving) {
	p.proving = proving
	for _, s := range p.servers.all {
		if p.scorerOf(s) == nil {
			p.servers.say(s.name() + " cannot score tokens here: nothing proves that it has loaded a version")
		}
	}
}

// scorerOf returns nil if a server cannot score tokens while weights are loaded.
func (p *proofs) scorerOf(s *server) scorer {
	if scorer, ok := s.endpoint.(scorer); ok && scorer.scores(p.proving.Alone) {
		return scorer
	}
	return nil
}

// deliver loads a version into a server until the server proves that it has it. A server that cannot
// load the version at all is not asked again, since it may have died of it.
func (l *loader) deliver(ctx context.Context, s *server, v version) error {
	for delivery := 1; ; delivery++ {
		if err := errors.Join(failLoad.Hit(""), l.load(ctx, s, v), failLoaded.Hit("")); err != nil {
			l.proofs.judge(s, false) // it may have a part of them
			return fmt.Errorf("%s: loading version %d from %s: %w", s.name(), v.number, cmp.Or(v.dir, "the trainer"), err)
		}
		err := l.proofs.prove(ctx, s, v.number)
		l.proofs.judge(s, err == nil)
		if err == nil {
			return nil
		}
		if delivery == mostDeliveries || ctx.Err() != nil {
			return fmt.Errorf("%s: version %d, delivered %d times: %w", s.name(), v.number, delivery, err)
		}
		l.pool.servers.say(fmt.Sprintf("%s: version %d is delivered again: %v", s.name(), v.number, err))
	}
}

// load loads a version into a server. One that sleeps first takes memory for the weights, and for the KV
// cache once it has them.
func (l *loader) load(ctx context.Context, s *server, v version) error {
	first := []part{partWeights}
	if l.pool.servers.adapter { // which leaves the weights as they are
		first = append(first, partCache)
	}
	if err := l.sleep.wake(ctx, s, first...); err != nil {
		return err
	}
	before, err := l.proofs.clear(ctx, s)
	if err == nil {
		err = l.give(ctx, s, v, len(l.pool.servers.asleep(s)) > 0)
	}
	if err == nil {
		err = l.proofs.covers(ctx, before, s, v)
	}
	if err != nil {
		return err
	}
	return l.sleep.wake(ctx, s, partCache)
}

// give gives a version to a server. One that is asleep has memory for the weights alone.
func (l *loader) give(ctx context.Context, s *server, v version, asleep bool) error {
	if _, err := l.others.complete(ctx, s); err != nil {
		return err
	}
	switch {
	case v.from != nil:
		return l.receive(ctx, s, v, asleep)
	case l.pool.servers.adapter:
		return s.endpoint.(holder).held().replace(ctx, v.dir, v.name)
	}
	return s.load(ctx, v.dir, v.name, asleep)
}

// prove checks the weights of a server, if it can score tokens.
func (p *proofs) prove(ctx context.Context, s *server, version int64) error {
	scorer := p.scorerOf(s)
	if p.proving.Check == nil || scorer == nil {
		return nil
	}
	return p.proving.Check(ctx, version, s.url, scorer.score)
}

// unproven notes that a server may sample with a version from now on, which is not proven until
// proved is called.
func (p *proofs) unproven(s *server, version int64, name string) {
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	s.coming, s.next = name, max(s.next, version)
	if s.proven == nil {
		s.proven = make(chan struct{})
	}
}

// judge notes whether a server has proven that it has the weights that it has loaded.
func (p *proofs) judge(s *server, proven bool) {
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	if s.disproved = !proven; !proven {
		s.failedLoads++
	}
}

// proved ends the wait for the proof of what servers have loaded.
func (p *proofs) proved(all []*server) {
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	for _, s := range all {
		close(s.proven)
		s.proven, s.coming = nil, ""
	}
}

// settled waits until the version that a server sampled with is proven. It is an error if a delivery
// has failed since there were failed ones: the server may have sampled with what that has left.
func (p *proofs) settled(ctx context.Context, s *server, version int64, failed int) error {
	if now := p.servers.now(s); now.proven != nil && version > now.version {
		select {
		case <-now.proven:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the proof of version %d: %w", version, context.Cause(ctx))
		}
	}
	switch now := p.servers.now(s); {
	case now.disproved:
		return errUnproven
	case now.failedLoads > failed:
		return errThrownAway
	}
	return nil
}

// errUnproven is the failure of a server whose weights are not those that it was given.
var errUnproven = retry.Temporary(errors.New("nothing proves that it has the weights that it was given: it gets the next version"))

// errThrownAway is the fate of an answer that a server gave before a later delivery put it right.
var errThrownAway = retry.Temporary(errors.New("it answered with weights that are not those that it was given"))
