package remote

import (
	"context"
	"sync"
)

// gate is a lock, and a place to wait at until what it guards has changed.
type gate struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something has changed
}

// await blocks until ready holds and returns with the lock held; on error, the context's cause, the lock is not held.
func (g *gate) await(ctx context.Context, ready func() bool) error {
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
			return context.Cause(ctx)
		}
	}
}

// signal wakes all waiters; the lock is held.
func (g *gate) signal() {
	close(g.changed)
	g.changed = make(chan struct{})
}
