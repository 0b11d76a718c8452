package explorer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
)

// deadline ends a context after a time. The time stands still while the rollout waits for a slot.
type deadline struct {
	mu      sync.Mutex
	timer   *time.Timer
	left    time.Duration // when the timer was started
	started time.Time
	waiting int       // calls of the rollout that wait for a slot
	outer   *deadline // around this one; nil if there is none
}

// timedOut is the failure of a rollout at a deadline, by what people call it.
func timedOut(name string) error {
	return &trinity.RolloutError{Kind: trinity.FailedTimeout, Err: errors.New(name + " passed")}
}

type deadlineKey struct{}

// withDeadline returns a context that ends after the given time, and a function that frees it. name
// returns what people call this time; few rollouts need it.
func withDeadline(ctx context.Context, after time.Duration, name func() string) (context.Context, func()) {
	d := &deadline{left: after, started: time.Now(), outer: deadlineOf(ctx)}
	ctx, cancel := context.WithCancelCause(ctx)
	d.timer = time.AfterFunc(after, func() { cancel(timedOut(name())) })
	return context.WithValue(ctx, deadlineKey{}, d), func() {
		d.timer.Stop()
		cancel(nil)
	}
}

// deadlineOf returns the deadline of a rollout's context, nil if it has none.
func deadlineOf(ctx context.Context) *deadline {
	d, _ := ctx.Value(deadlineKey{}).(*deadline)
	return d
}

// pause stops the time, also of the deadlines around d, until resume is called as often.
func (d *deadline) pause() {
	if d.outer != nil {
		d.outer.pause()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting++; d.waiting == 1 && d.timer.Stop() {
		d.left -= time.Since(d.started)
	}
}

func (d *deadline) resume() {
	if d.outer != nil {
		d.outer.resume()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting--; d.waiting == 0 {
		d.started = time.Now()
		d.timer.Reset(max(0, d.left))
	}
}
