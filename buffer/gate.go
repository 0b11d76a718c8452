package buffer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/wait"
)

// gate is a lock, and a place to wait at until what it guards has changed.
type gate struct {
	mu    sync.Mutex
	point wait.Point
}

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
	err := g.point.Await(ctx, &g.mu, ready)
	if err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		err = fmt.Errorf("waiting for %s, which holds %s: %w", what, held(), err)
	}
	return err
}

// signal wakes all waiters; the lock is held.
func (g *gate) signal() { g.point.Signal() }
