package buffer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/wait"
)

// gate is a lock with a condition to wait for.
type gate struct {
	mu    sync.Mutex
	point wait.Point
}

// withTimeout bounds a wait by the setting key; 0 means no bound. The error names the setting.
func withTimeout(ctx context.Context, d time.Duration, key string) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, timeout{key, d})
}

// timeout is the cause of a wait that a setting has ended.
type timeout struct {
	key string
	d   time.Duration
}

func (t timeout) Error() string { return fmt.Sprintf("%s of %v passed", t.key, t.d) }

// Timeout distinguishes it from other causes, like the method of [net.Error].
func (t timeout) Timeout() bool { return true }

// await blocks until ready returns true, and returns with the lock held. On error the lock is not
// held, and the error says what the caller waited for and what the buffer holds.
func (g *gate) await(ctx context.Context, what string, held func() string, ready func() bool) error {
	err := g.point.Await(ctx, &g.mu, ready)
	if err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		err = fmt.Errorf("waiting for %s, which holds %s: %w", what, held(), err)
	}
	return err
}

// signal wakes all waiters. The caller holds the lock.
func (g *gate) signal() { g.point.Signal() }
