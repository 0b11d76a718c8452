package fleet

import (
	"context"
	"sync"

	"github.com/trinity-go/trinity/internal/wait"
)

// gate is a lock, and a place to wait at until what it guards has changed.
type gate struct {
	mu    sync.Mutex
	point wait.Point
}

// await blocks until ready holds and returns with the lock held; on error, the context's cause, the lock is not held.
func (g *gate) await(ctx context.Context, ready func() bool) error {
	return g.point.Await(ctx, &g.mu, ready)
}

// signal wakes all waiters; the lock is held.
func (g *gate) signal() { g.point.Signal() }
