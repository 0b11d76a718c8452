package sampler

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// inbox is what the callers of a sampler and its scheduler share: the queue of requests, the state
// of the sampler, and its statistics.
type inbox struct {
	mu     sync.Mutex
	wake   sync.Cond // on mu: a request was queued or cancelled, a rest began or ended, or the sampler was closed
	queue  queue     // requests with completions that are not sequences yet, in order of arrival
	nextID int64
	closed bool
	rests  bool  // no step may begin
	unfit  error // why the weights cannot sample; nil if they can
	stats  Stats

	cancelling atomic.Bool // the scheduler has not yet dropped some cancelled request
}

func newInbox() *inbox {
	b := &inbox{unfit: errors.New("no weights yet: call Update first")}
	b.wake.L = &b.mu
	return b
}

// push queues a request and gives it its number.
func (b *inbox) push(r *request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	if b.unfit != nil {
		return fmt.Errorf("sampler: %w", b.unfit)
	}
	b.nextID++
	r.id = b.nextID
	b.queue.push(r)
	b.wake.Signal()
	return nil
}

// cancel asks the scheduler to drop a request, also at rest.
func (b *inbox) cancel(r *request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.cancelled.Store(true)
	b.cancelling.Store(true)
	b.wake.Signal()
}

// first returns the request that has waited longest; nil if none waits.
func (b *inbox) first() *request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue.first()
}

// pop removes the first request.
func (b *inbox) pop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue.pop()
}

// keep removes all requests for which stays is false.
func (b *inbox) keep(stays func(*request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue.keep(stays)
}

// wait returns true once there is work, and false once the sampler is closed. While no step may begin, the
// work is to drop cancelled requests.
func (b *inbox) wait() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.closed && !b.hasWork() {
		b.wake.Wait()
	}
	return !b.closed
}

// hasWork is called with the lock held.
func (b *inbox) hasWork() bool {
	if b.rests {
		return b.cancelling.Load()
	}
	return b.queue.len() > 0 || b.stats.Running > 0
}

// rest stops the scheduler before its next step, or lets it go on.
func (b *inbox) rest(rests bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rests = rests
	b.wake.Signal()
}

func (b *inbox) isResting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rests
}

// close makes wait return false and push fail.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wake.Signal()
}

func (b *inbox) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// setUnfit sets why the weights cannot sample; nil means that they can.
func (b *inbox) setUnfit(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unfit = err
}

// record changes the statistics.
func (b *inbox) record(change func(*Stats)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.stats)
}

// snapshot returns the statistics so far.
func (b *inbox) snapshot() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	stats := b.stats
	stats.Queued = b.queue.len()
	return stats
}
