package served

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
)

const (
	mostFailures = 3                // in a row, before a server is left out
	slack        = 8                // requests that a server may have more than another one because it has a prefix
	firstPause   = time.Second      // before a server that failed is asked again; it doubles
	mostPause    = 30 * time.Second // between two looks at a server
	lookTime     = 30 * time.Second // that a look may take
	idleTime     = 10 * time.Second // after which a server may have restarted without a failed request
)

// pool chooses the server of each request.
type pool struct {
	servers *servers
	pause   time.Duration                              // firstPause, but in tests
	look    func(ctx context.Context, s *server) error // samples a token
	restore func(ctx context.Context, s *server) error // loads the newest weights into a server that has lost them
	rouse   func(ctx context.Context, s *server) error // wakes a server that sleeps
	// complete gives a server that may have restarted the adapters that it lacks.
	complete func(ctx context.Context, s *server) error
	turn     *turn // of the GPUs that the servers share

	// The lock of the servers guards what follows.
	places  places
	lost    time.Time     // since when no server is left; zero while there is one
	back    chan struct{} // closed when a server comes back
	closed  bool
	looking sync.WaitGroup
	watch   func(s *server) // looks at a server that is left out, until it answers or stop is called
	stop    func()
}

// traffic is how a server fares with requests.
type traffic struct {
	inFlight int
	failures int       // in a row
	suspect  bool      // it may have restarted, with other weights
	seen     time.Time // when it last answered
	out      bool      // it is left out, and watch looks at it
	returns  int       // how often it has come back after that
	why      error     // the last failure
}

func newPool(list *servers) *pool {
	p := &pool{servers: list, pause: firstPause, back: make(chan struct{}), turn: &turn{}}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.watch = func(s *server) { p.looking.Go(func() { p.lookUntilBack(ctx, s) }) }
	return p
}

// close stops looking at servers.
func (p *pool) close() {
	p.servers.mu.Lock()
	p.closed = true
	p.servers.mu.Unlock()
	p.stop()
	p.looking.Wait()
}

// ask sends a request to one server after another until one answers. An error is that of the
// request, of its context, or an EngineError if no server is left.
func (p *pool) ask(ctx context.Context, prompt []int32, send func(context.Context, *server) error) error {
	tried, pause := map[*server]bool{}, p.pause
	for {
		s, others := p.choose(prompt, tried)
		switch {
		case s != nil:
			tried[s] = true
			err := p.attempt(ctx, s, others, send)
			switch again := p.settle(ctx, s, err); {
			case err == nil:
				return nil
			case !again, errors.As(err, new(partialReply)):
				return fmt.Errorf("%s: %w", s.name(), err)
			}
		case len(tried) > 0: // all servers have failed
			clear(tried)
			if err := rest(ctx, pause); err != nil {
				return err
			}
			pause = min(2*pause, mostPause)
		default:
			if err := p.await(ctx); err != nil {
				return err
			}
		}
	}
}

// choose takes the least loaded server, or the one that has the prompt's beginning. others reports
// whether the request could go to another one.
func (p *pool) choose(prompt []int32, tried map[*server]bool) (chosen *server, others bool) {
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	free := 0
	for _, s := range p.servers.all {
		if s.out || tried[s] {
			continue
		}
		if free++; chosen == nil || s.inFlight < chosen.inFlight {
			chosen = s
		}
	}
	if chosen == nil {
		return nil, false
	}
	if home := p.places.find(prompt); home != nil && !home.out && !tried[home] && home.inFlight <= chosen.inFlight+slack {
		chosen = home
	}
	if len(p.servers.all) > 1 {
		p.places.remember(prompt, chosen)
	}
	chosen.inFlight++
	return chosen, free > 1
}

// attempt sends the request to a server. If another one could answer too, it gets half of the time
// that is left.
func (p *pool) attempt(ctx context.Context, s *server, others bool, send func(context.Context, *server) error) error {
	if err := p.turn.begin(ctx); err != nil {
		return err
	}
	defer p.turn.end()
	if others {
		part := p.servers.patience
		if end, ok := ctx.Deadline(); ok {
			part = min(part, time.Until(end))
		}
		part /= 2
		var cancel context.CancelFunc
		ctx, cancel = within(ctx, part, "%w: none within %v, half of the time that was left", retry.ErrLate, part.Round(time.Millisecond))
		defer cancel()
	}
	if err := p.recognise(ctx, s); err != nil {
		return err
	}
	before := p.servers.now(s)
	err := send(ctx, s)
	if statusOf(err) > 0 && !retry.IsTemporary(err) {
		return p.explain(ctx, s, before, err)
	}
	return err
}

// settle counts how a request went. It reports whether another server may answer it.
func (p *pool) settle(ctx context.Context, s *server, err error) (again bool) {
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	s.inFlight--
	switch {
	case err == nil:
		s.failures, s.seen = 0, time.Now()
		p.servers.own.isOfUse(s.url)
		return false
	case ctx.Err() != nil && !isLate(context.Cause(ctx)), ctx.Err() == nil && !retry.IsTemporary(err) && !isLate(err):
		return false // the caller gave up, or the request is at fault
	case errors.Is(err, errThrownAway):
		return ctx.Err() == nil
	}
	s.failures++
	s.suspect = true
	s.fails(err)
	if s.failures >= mostFailures || errors.Is(err, errRestarted) {
		p.leaveOut(s)
	}
	return ctx.Err() == nil
}

// isLate reports whether a deadline has passed.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, retry.ErrLate) ||
		trinity.KindOf(err, "") == trinity.FailedTimeout
}

// fails notes why a server fails. That it is unproven has a reason of its own, for which it is left out.
// The lock is held.
func (s *server) fails(err error) {
	if !s.out || !errors.Is(err, errUnproven) {
		s.why = err
	}
}

// leaveOut gives a server no more requests until a look at it succeeds. The lock is held.
func (p *pool) leaveOut(s *server) {
	if s.out || p.closed {
		return
	}
	s.out = true
	p.servers.say(fmt.Sprintf("%s is left out: %v", s.name(), s.why))
	if p.left() == 0 {
		p.lost = time.Now()
	}
	p.watch(s)
}

func (p *pool) left() (n int) {
	for _, s := range p.servers.all {
		if !s.out {
			n++
		}
	}
	return n
}

// takeBack gives a server requests again. The lock is held.
func (p *pool) takeBack(s *server) {
	s.failures, s.suspect, s.seen = 0, false, time.Now()
	p.servers.own.isOfUse(s.url)
	if !s.out {
		return
	}
	s.out, p.lost = false, time.Time{}
	s.returns++
	p.servers.say(s.name() + " is back")
	p.changed()
}

// await waits until a server is back.
func (p *pool) await(ctx context.Context) error {
	p.servers.mu.Lock()
	back, left := p.back, p.servers.patience-time.Since(p.lost)
	if p.left() > 0 {
		p.servers.mu.Unlock()
		return nil
	}
	p.servers.mu.Unlock()
	if err := p.hopeless(); err != nil {
		return err
	}
	timer := time.NewTimer(max(0, left))
	defer timer.Stop()
	select {
	case <-back:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w (%s)", context.Cause(ctx), p.reasons())
	case <-timer.C:
		return &trinity.EngineError{Err: fmt.Errorf("no server has answered for %v: %s", p.servers.patience, p.reasons())}
	}
}

// hopeless returns an error if no server is left that would be started again.
func (p *pool) hopeless() error {
	var all []error
	for _, s := range p.servers.all {
		if err := p.servers.own.lost(s.url); err != nil {
			all = append(all, err)
		}
	}
	if len(all) < len(p.servers.all) {
		return nil
	}
	return &trinity.EngineError{Err: errors.New(oneLine(all))}
}

// wakeAll makes those look again who wait for a server. p may be nil.
func (p *pool) wakeAll() {
	if p != nil {
		p.servers.mu.Lock()
		defer p.servers.mu.Unlock()
		p.changed()
	}
}

// changed is wakeAll. The lock is held.
func (p *pool) changed() {
	close(p.back)
	p.back = make(chan struct{})
}

// reasons names each server that is left out with its last failure.
func (p *pool) reasons() string {
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	var all []string
	for _, s := range p.servers.all {
		if s.out {
			all = append(all, fmt.Sprintf("%s: %v", s.name(), s.why))
		}
	}
	return strings.Join(all, "; ")
}

// computed notes that a server has a sequence in its cache.
func (p *pool) computed(prompt, reply []int32, s *server) {
	if len(p.servers.all) > 1 {
		p.servers.mu.Lock()
		defer p.servers.mu.Unlock()
		p.places.remember(slices.Concat(prompt, reply), s)
	}
}
