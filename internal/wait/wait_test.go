package wait

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// Each of many concurrent waiters sees the change that it waits for.
func TestAwait(t *testing.T) {
	var mu sync.Mutex
	var p Point
	n := 0
	var waiters sync.WaitGroup
	for i := range 20 {
		waiters.Go(func() {
			if err := p.Await(t.Context(), &mu, func() bool { return n >= i }); err != nil {
				t.Error(err)
				return
			}
			defer mu.Unlock()
			if n < i {
				t.Errorf("woken at %d, waited for %d", n, i)
			}
		})
	}
	for range 20 {
		mu.Lock()
		n++
		p.Signal()
		mu.Unlock()
	}
	waiters.Wait()
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	var mu sync.Mutex
	var p Point
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- p.Await(ctx, &mu, func() bool { return false }) }()
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
	mu.Lock() // which is free
	defer mu.Unlock()
	p.Signal() // nobody waits any more, and nothing is left behind
	if p.next != nil {
		t.Error("a channel is left")
	}
}

func TestNextIsForOneSignal(t *testing.T) {
	var p Point
	p.Signal()
	first := p.Next()
	select {
	case <-first:
		t.Error("closed by the signal before")
	default:
	}
	p.Signal()
	<-first
	if p.Next() == first {
		t.Error("the same for two signals")
	}
}
