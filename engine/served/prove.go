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

// Logprobs implements engine.Rescorer.
func (s *Sampler) Logprobs(ctx context.Context, tokens []int32) (logprobs []float32, err error) {
	late := fmt.Errorf("no server has scored a sequence within %v", s.pool.patience)
	ctx, cancel := context.WithTimeoutCause(ctx, s.pool.patience, late)
	defer cancel()
	err = s.pool.ask(ctx, tokens, func(ctx context.Context, at *server) (err error) {
		logprobs, err = scored(ctx, at, tokens)
		return err
	})
	return logprobs, err
}

// scored returns how a server scores tokens.
func scored(ctx context.Context, at *server, tokens []int32) ([]float32, error) {
	scorer, ok := at.endpoint.(scorer)
	if !ok || !scorer.scores(false) {
		return nil, errors.New("it scores no tokens that it is given")
	}
	logprobs, err := scorer.score(ctx, tokens)
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

// Prove implements weights.Provable.
func (s *Sampler) Prove(p engine.Proving) {
	s.proving = p
	for _, at := range s.pool.servers {
		if s.scorerOf(at) == nil {
			s.pool.say(at.name() + " cannot score tokens here: nothing proves that it has loaded a version")
		}
	}
}

// scorerOf returns nil if a server cannot score tokens while weights are loaded.
func (s *Sampler) scorerOf(at *server) scorer {
	if scorer, ok := at.endpoint.(scorer); ok && scorer.scores(s.proving.Alone) {
		return scorer
	}
	return nil
}

// deliver loads a version into a server until the server proves that it has it. A server that cannot
// load the version at all is not asked again, since it may have died of it.
func (s *Sampler) deliver(ctx context.Context, at *server, v version) error {
	for delivery := 1; ; delivery++ {
		if err := errors.Join(failLoad.Hit(""), s.load(ctx, at, v), failLoaded.Hit("")); err != nil {
			s.pool.judge(at, false) // it may have a part of them
			return fmt.Errorf("%s: loading version %d from %s: %w", at.name(), v.number, cmp.Or(v.dir, "the trainer"), err)
		}
		err := s.prove(ctx, at, v.number)
		s.pool.judge(at, err == nil)
		if err == nil {
			return nil
		}
		if delivery == mostDeliveries || ctx.Err() != nil {
			return fmt.Errorf("%s: version %d, delivered %d times: %w", at.name(), v.number, delivery, err)
		}
		s.pool.say(fmt.Sprintf("%s: version %d is delivered again: %v", at.name(), v.number, err))
	}
}

// load loads a version into a server. One that sleeps first takes memory for the weights, and for the KV
// cache once it has them.
func (s *Sampler) load(ctx context.Context, at *server, v version) error {
	first := []part{partWeights}
	if s.adapter { // which leaves the weights as they are
		first = append(first, partCache)
	}
	if err := s.wake(ctx, at, first...); err != nil {
		return err
	}
	before, err := s.clear(ctx, at)
	if err == nil {
		err = s.give(ctx, at, v, len(s.pool.asleep(at)) > 0)
	}
	if err == nil {
		err = before.end(ctx, s, at, v)
	}
	if err != nil {
		return err
	}
	return s.wake(ctx, at, partCache)
}

// give gives a version to a server. One that is asleep has memory for the weights alone.
func (s *Sampler) give(ctx context.Context, at *server, v version, asleep bool) error {
	if err := s.complete(ctx, at); err != nil {
		return err
	}
	switch {
	case v.from != nil:
		return s.receive(ctx, at, v, asleep)
	case s.adapter:
		return at.endpoint.(holder).replace(ctx, v.dir, v.name)
	}
	return at.load(ctx, v.dir, v.name, asleep)
}

// prove checks the weights of a server, if it can score tokens.
func (s *Sampler) prove(ctx context.Context, at *server, version int64) error {
	scorer := s.scorerOf(at)
	if s.proving.Check == nil || scorer == nil {
		return nil
	}
	return s.proving.Check(ctx, version, at.url, scorer.score)
}

// unproven notes that a server may sample with a version from now on, which is not proven until
// proved is called.
func (p *pool) unproven(s *server, version int64, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.coming = name
	s.next = max(s.next, version)
	if s.proving == nil {
		s.proving = make(chan struct{})
	}
}

// judge notes whether a server has proven that it has the weights that it has loaded.
func (p *pool) judge(s *server, proven bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.disproved = !proven; !proven {
		s.failedLoads++
	}
}

// failedLoads counts the deliveries to a server that have failed.
func (p *pool) failedLoads(s *server) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.failedLoads
}

// proved ends the wait for the proof of what servers have loaded.
func (p *pool) proved(servers []*server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range servers {
		close(s.proving)
		s.proving, s.coming = nil, ""
	}
}

// settled waits until the version that a server sampled with is proven. It is an error if a delivery
// has failed since there were failed ones: the server may have sampled with what that has left.
func (p *pool) settled(ctx context.Context, s *server, version int64, failed int) error {
	p.mu.Lock()
	proving := s.proving
	if version <= s.version {
		proving = nil
	}
	p.mu.Unlock()
	if proving != nil {
		select {
		case <-proving:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the proof of version %d: %w", version, context.Cause(ctx))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s.disproved:
		return errUnproven
	case s.failedLoads > failed:
		return errThrownAway
	}
	return nil
}

// errUnproven is the failure of a server whose weights are not those that it was given.
var errUnproven = retry.Temporary(errors.New("nothing proves that it has the weights that it was given: it gets the next version"))

// errThrownAway is the fate of an answer that a server gave before a later delivery put it right.
var errThrownAway = retry.Temporary(errors.New("it answered with weights that are not those that it was given"))
