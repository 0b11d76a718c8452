package served

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wait"
)

// sleeper is an endpoint whose server gives the memory of its GPUs back for a while.
type sleeper interface {
	// sleep moves the weights to host memory and drops the KV cache. No request may be in flight.
	sleep(ctx context.Context) error
	// wake takes memory for a part again.
	wake(ctx context.Context, p part) error
}

// part is what a server has in the memory of its GPUs.
type part string

// The parts, by the names that vLLM and SGLang give them, in the order in which they wake.
const (
	partWeights part = "weights"
	partCache   part = "kv_cache"
)

// sleepControl lets servers sleep while the engine that trains needs their GPUs.
type sleepControl struct{ pool *pool }

// sleepState is what sleeps of a server.
type sleepState struct {
	parts   []part
	sleptAt int64 // starts of the server when it fell asleep
}

// turn says who has the GPUs that servers share with the engine that trains. The zero turn is that of
// the servers.
type turn struct {
	mu      sync.Mutex
	changed wait.Point
	users   int  // requests in flight, and servers that start
	trains  bool // the engine has the GPUs
	closed  bool // no request may begin; true while trains, and until weights are loaded
}

// begin waits until requests may use the servers. The caller calls end.
func (t *turn) begin(ctx context.Context) error {
	return t.enter(ctx, func() bool { return !t.closed })
}

// beginStart waits until a server may start. The caller calls end.
func (t *turn) beginStart(ctx context.Context) error {
	return t.enter(ctx, func() bool { return !t.trains })
}

func (t *turn) enter(ctx context.Context, may func() bool) error {
	if err := t.changed.Await(ctx, &t.mu, may); err != nil {
		return err
	}
	t.users++
	t.mu.Unlock()
	return nil
}

func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users--
	t.changed.Signal()
}

// take gives the GPUs to the engine, as soon as no request is in flight and no server starts.
func (t *turn) take(ctx context.Context) error {
	t.set(true, true)
	if err := t.changed.Await(ctx, &t.mu, func() bool { return t.users == 0 }); err != nil {
		t.set(false, false)
		return err
	}
	t.mu.Unlock()
	return nil
}

func (t *turn) set(trains, closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trains, t.closed = trains, closed
	t.changed.Signal()
}

// sleepAll puts the servers to sleep, unless they have GPUs of their own.
func (c *sleepControl) sleepAll(ctx context.Context) error {
	if !c.pool.servers.shares {
		return nil
	}
	patience := c.pool.servers.patience
	draining, cancel := within(ctx, patience, "the servers' requests in flight, or a start of one, have not ended within %v", patience)
	defer cancel()
	if err := c.pool.turn.take(draining); err != nil {
		return fmt.Errorf("putting the servers to sleep: %w", err)
	}
	return c.each(ctx, "sleep", func(ctx context.Context, s *server) error {
		if len(c.pool.servers.asleep(s)) > 0 {
			return nil
		}
		sleeper, ok := s.endpoint.(sleeper)
		if !ok {
			return errors.New("it cannot sleep")
		}
		if err := sleeper.sleep(ctx); err != nil {
			return err
		}
		c.sleeps(s, []part{partWeights, partCache})
		return nil
	})
}

// rouseAll wakes what sleepAll has put to sleep.
func (c *sleepControl) rouseAll(ctx context.Context) error {
	if !c.pool.servers.shares {
		return nil
	}
	c.pool.turn.set(false, true)
	err := c.each(ctx, "wake up", c.rouse)
	c.pool.turn.set(false, err != nil)
	return err
}

// each calls do for all servers at once. A server that does not answer has ended, which frees its GPUs
// as well: it is left out. Another failure is an error that names server and phase.
func (c *sleepControl) each(ctx context.Context, phase string, do func(context.Context, *server) error) error {
	limited, cancel := within(ctx, c.pool.servers.limit, "%s: load_timeout of %v passed", phase, c.pool.servers.limit)
	defer cancel()
	all := c.pool.servers.all
	errs := atOnce(all, func(s *server) error { return do(limited, s) })
	for i, s := range all {
		switch {
		case errs[i] == nil:
		case limited.Err() == nil && isGone(errs[i]):
			c.ends(s, fmt.Errorf("%s: %w", phase, errs[i]))
			errs[i] = nil
		default:
			errs[i] = fmt.Errorf("%s: %s: %w", s.name(), phase, errs[i])
		}
	}
	if errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(errs) == 0 {
		return nil
	}
	return &trinity.EngineError{Err: errors.New(oneLine(errs))}
}

// rouse wakes a server.
func (c *sleepControl) rouse(ctx context.Context, s *server) error {
	return c.wake(ctx, s, partWeights, partCache)
}

// wake wakes some parts of a server. A part that is awake stays so.
func (c *sleepControl) wake(ctx context.Context, s *server, parts ...part) error {
	for _, p := range parts {
		asleep := c.pool.servers.asleep(s)
		if !slices.Contains(asleep, p) {
			continue
		}
		if err := s.endpoint.(sleeper).wake(ctx, p); err != nil {
			if len(c.pool.servers.asleep(s)) == 0 { // it has been started again meanwhile
				return nil
			}
			return fmt.Errorf("waking %s: %w", p, err)
		}
		c.sleeps(s, slices.DeleteFunc(asleep, func(other part) bool { return other == p }))
	}
	return nil
}

// asleep returns the parts of a server that sleep. One that has been started again is awake.
func (l *servers) asleep(s *server) []part {
	now := l.now(s)
	if now.sleptAt != l.own.starts(s.url) {
		return nil
	}
	return slices.Clone(now.parts)
}

func (c *sleepControl) sleeps(s *server, parts []part) {
	c.pool.servers.mu.Lock()
	defer c.pool.servers.mu.Unlock()
	s.sleepState = sleepState{parts, c.pool.servers.own.starts(s.url)}
}

// ends leaves out a server that has ended, and so sleeps no longer.
func (c *sleepControl) ends(s *server, why error) {
	c.pool.servers.mu.Lock()
	defer c.pool.servers.mu.Unlock()
	s.parts, s.suspect, s.why = nil, true, why
	c.pool.leaveOut(s)
}
