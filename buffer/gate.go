package buffer

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// gate is a lock, and a place to wait at until what it guards has changed.
type gate struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something has changed
}

func newGate() gate { return gate{changed: make(chan struct{})} }

// withTimeout bounds a wait by a setting, which the error names; 0 does not.
func withTimeout(ctx context.Context, d time.Duration, key string) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, timeout{key, d})
}

// timeout is the cause of a wait's end by a setting.
type timeout struct {
	key string
	d   time.Duration
}

func (t timeout) Error() string { return fmt.Sprintf("%s of %v passed", t.key, t.d) }

// Timeout tells it from other causes, as that of [net.Error] does.
func (t timeout) Timeout() bool { return true }

// await blocks until ready holds and returns with the lock held; on error the lock is not held, and the error says who was waited for and what the
// buffer holds.
func (g *gate) await(ctx context.Context, what string, held func() string, ready func() bool) error {
	for {
		g.mu.Lock()
		if ready() {
			return nil
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			g.mu.Lock()
			defer g.mu.Unlock()
			return fmt.Errorf("waiting for %s, which holds %s: %w", what, held(), context.Cause(ctx))
		}
	}
}

// signal wakes all waiters; the lock is held.
func (g *gate) signal() {
	close(g.changed)
	g.changed = make(chan struct{})
}
