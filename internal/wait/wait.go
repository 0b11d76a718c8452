// Package wait lets goroutines wait until something guarded by a lock has changed.
package wait

import (
	"context"
	"sync"
)

// Point is a condition variable whose waits end with a context. The lock that guards the condition
// guards the Point too. The zero Point is ready to use.
type Point struct {
	next chan struct{} // nil while no goroutine waits
}

// Await blocks until ready returns true, and then returns nil with the lock held. It calls ready
// with the lock held. If ctx ends first, Await returns its cause, without the lock.
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

// Next returns a channel that the next Signal closes. The caller holds the lock.
func (p *Point) Next() <-chan struct{} {
	if p.next == nil {
		p.next = make(chan struct{})
	}
	return p.next
}

// Signal wakes all waiting goroutines. The caller holds the lock.
func (p *Point) Signal() {
	if p.next != nil {
		close(p.next)
		p.next = nil
	}
}
