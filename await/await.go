// Package await is for goroutines that wait until what a lock guards has changed.
package await

import (
	"context"
	"sync"
)

// Point is where to wait. The zero Point is ready; the lock that guards what is waited for guards it too.
type Point struct {
	next chan struct{} // nil while nobody waits
}

// Await blocks until ready, which is called with the lock held, and returns with the lock held. When ctx ends before, the lock is not held and the error is the cause.
func (p *Point) Await(ctx context.Context, lock sync.Locker, ready func() bool) error {
	for {
		lock.Lock()
		if ready() {
			return nil
		}
		next := p.Next()
		lock.Unlock()
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Next is closed by the next Signal; the lock is held.
func (p *Point) Next() <-chan struct{} {
	if p.next == nil {
		p.next = make(chan struct{})
	}
	return p.next
}

// Signal wakes all who wait; the lock is held.
func (p *Point) Signal() {
	if p.next != nil {
		close(p.next)
		p.next = nil
	}
}
