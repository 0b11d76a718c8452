package served

import (
	"context"
	"errors"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// errRestarted is the failure of a server that lost the weights it was given.
var errRestarted = retry.Temporary(errors.New("it has not the weights that it was given: it has restarted, and gets them again"))

// recognise checks that a server that may have restarted still has the weights that it was given.
func (p *pool) recognise(ctx context.Context, s *server) error {
	ended := p.own.endedSince(s.url)
	p.mu.Lock()
	s.suspect = s.suspect || ended
	suspect, weights, coming := s.suspect || time.Since(s.seen) > idleTime, p.weights, s.coming
	disproved := s.disproved
	p.mu.Unlock()
	if disproved {
		return errUnproven
	}
	if !suspect || weights == "" {
		return nil
	}
	if err := s.hasOne(ctx, weights, coming); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.suspect, s.seen = false, time.Now()
	return nil
}

// hasOne returns errRestarted if a server has none of some weights. Weights called "" are none.
func (s *server) hasOne(ctx context.Context, names ...string) error {
	for _, name := range names {
		if name == "" {
			continue
		}
		if has, err := s.has(ctx, name); has || err != nil {
			return err
		}
	}
	return errRestarted
}

// explain returns why a server refused a request, which it got when it had come back so many times. A
// server that has restarted does not know the name of its adapter. It may have it again by now, because
// another request has found that out: then the request may be sent again.
func (p *pool) explain(ctx context.Context, s *server, returns int, refused error) error {
	p.mu.Lock()
	s.suspect = true
	p.mu.Unlock()
	if err := p.recognise(ctx, s); err != nil {
		return err
	}
	if out, now := p.presence(s); out || now != returns {
		return retry.Temporary(refused)
	}
	return refused
}

// lookUntilBack looks at a server that is left out, with growing pauses.
func (p *pool) lookUntilBack(ctx context.Context, s *server) {
	for pause := p.pause; ; pause = min(2*pause, mostPause) {
		if p.rest(ctx, pause) != nil || p.isBack(ctx, s) {
			return
		}
	}
}

// isBack looks at a server once. It reports whether the server takes requests again.
func (p *pool) isBack(ctx context.Context, s *server) bool {
	err := p.revive(ctx, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.takeBack(s)
	} else if s.out {
		s.fails(err)
	}
	return !s.out
}

// revive returns an error unless a server samples, with the weights that it must have. It gives them to
// a server that has restarted.
func (p *pool) revive(ctx context.Context, s *server) error {
	if err := p.turn.begin(ctx); err != nil {
		return err
	}
	defer p.turn.end()
	limited, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := p.rouse(limited, s); err != nil {
		return err
	}
	err := p.recognise(limited, s)
	if newest, holds := p.names(s); errors.Is(err, errUnproven) && newest != "" {
		if lost := s.hasOne(limited, newest, holds); lost != nil { // the server has ended since
			err = lost
		}
	}
	if errors.Is(err, errRestarted) {
		return p.restore(ctx, s)
	}
	if err != nil {
		return err
	}
	return p.look(limited, s)
}

// names returns the names of the newest weights and of those that a server has loaded last; "" until then.
func (p *pool) names(s *server) (newest, holds string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weights, s.holds
}

// restore gives a server that has restarted the newest version.
func (s *Sampler) restore(ctx context.Context, at *server) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if out, _ := s.pool.presence(at); !out {
		return nil // it has got a newer one meanwhile
	}
	limited, cancel := s.limitLoad(ctx)
	defer cancel()
	v := s.newest
	s.pool.unproven(at, v.number, v.name)
	defer s.pool.proved([]*server{at})
	if err := s.deliver(limited, at, v); err != nil {
		return err
	}
	if s.agreed.of(v) {
		if _, err := s.agree(limited, at); err != nil {
			s.pool.judge(at, false)
			return err
		}
	}
	s.pool.loads(at, v)
	return s.look(limited, at)
}

// presence returns whether a server is left out, and how often it has come back.
func (p *pool) presence(s *server) (out bool, returns int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.out, s.returns
}

// loads notes that a server has loaded a version.
func (p *pool) loads(s *server, v version) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.version, s.next, s.holds = v.number, v.number, v.name
}
