package served

import (
	"context"
	"errors"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// errRestarted is the failure of a server that lost the weights it was given.
var errRestarted = retry.Temporary(errors.New("it has not the weights that it was given: it has restarted, and gets them again"))

// recognise checks that a server that may have restarted still has the weights that it was given. One that has got
// adapters alone, without a policy, gets them again.
func (p *pool) recognise(ctx context.Context, s *server) error {
	ended := p.servers.own.endedSince(s.url)
	p.servers.mu.Lock()
	s.suspect = s.suspect || ended
	now, weights := s.state, p.servers.weights
	p.servers.mu.Unlock()
	switch {
	case now.disproved:
		return errUnproven
	case weights == "" && now.suspect:
		return p.complete(ctx, s)
	case weights == "", !now.suspect && time.Since(now.seen) <= idleTime:
		return nil
	}
	if err := s.hasOne(ctx, weights, now.coming); err != nil {
		return err
	}
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
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

// errSince is the failure of a request that named weights which the server has replaced since.
var errSince = retry.Temporary(errors.New("it has got other weights since the request began"))

// explain returns why a server refused a request that began in a state. A server that has restarted does
// not know the name of its adapter.
func (p *pool) explain(ctx context.Context, s *server, before state, refused error) error {
	p.servers.mu.Lock()
	s.suspect = true
	p.servers.mu.Unlock()
	if err := p.recognise(ctx, s); err != nil {
		return err
	}
	if now := p.servers.now(s); now.out || now.returns != before.returns || now.version != before.version {
		return errSince
	}
	return refused
}

// lookUntilBack looks at a server that is left out, with growing pauses.
func (p *pool) lookUntilBack(ctx context.Context, s *server) {
	for pause := p.pause; ; pause = min(2*pause, mostPause) {
		if rest(ctx, pause) != nil || p.isBack(ctx, s) {
			return
		}
	}
}

// isBack looks at a server once. It reports whether the server takes requests again.
func (p *pool) isBack(ctx context.Context, s *server) bool {
	err := p.revive(ctx, s)
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
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
	if newest := p.servers.wanted(); errors.Is(err, errUnproven) && newest != "" {
		if lost := s.hasOne(limited, newest, p.servers.now(s).weights); lost != nil { // the server has ended since
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

// complete gives a server the adapters that it has lost. Requests that named one of them before are sent again.
func (l *loader) complete(ctx context.Context, s *server) error {
	l.loading.Lock()
	defer l.loading.Unlock()
	if !l.pool.servers.now(s).suspect {
		return nil // another request has seen to it
	}
	limited, cancel := l.limitLoad(ctx)
	defer cancel()
	given, err := l.others.complete(limited, s)
	l.pool.servers.mu.Lock()
	defer l.pool.servers.mu.Unlock()
	s.suspect = err != nil
	if given > 0 {
		s.returns++
	}
	return err
}

// restore gives a server that has restarted the newest version.
func (l *loader) restore(ctx context.Context, s *server) error {
	l.loading.Lock()
	defer l.loading.Unlock()
	if !l.pool.servers.now(s).out {
		return nil // it has got a newer one meanwhile
	}
	limited, cancel := l.limitLoad(ctx)
	defer cancel()
	v := l.newest
	l.proofs.unproven(s, v.number, v.name)
	defer l.proofs.proved([]*server{s})
	if err := l.deliver(limited, s, v); err != nil {
		return err
	}
	if a := &l.proofs.agreed; a.by != nil && a.version == v.number {
		if _, err := l.proofs.agree(limited, s); err != nil {
			l.proofs.judge(s, false)
			return err
		}
	}
	l.pool.servers.mu.Lock()
	s.took(v)
	l.pool.servers.mu.Unlock()
	return l.pool.look(limited, s)
}
