package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
)

var errLapsed = errors.New("the lease of the explorer has expired")

// watch ends the sessions of explorers whose lease has expired, until ctx is cancelled.
func (s *Server) watch(ctx context.Context) error {
	for {
		s.known.mu.Lock()
		next := s.lapse()
		changed := s.known.changed.Next()
		s.known.mu.Unlock()
		if err := s.updateLapsed(ctx); err != nil {
			return err
		}
		timer := time.NewTimer(next)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// lapse reports the explorers that have lost their lease, and returns the time until the next lease
// may expire. The lock is held.
func (s *Server) lapse() time.Duration {
	lost, next := s.known.lapse(s.Lease)
	for _, e := range lost {
		what := "the trainer waits for it"
		if s.known.anyExpected() {
			what = "the trainer continues with the others"
		}
		s.Say(fmt.Sprintf("explorer %s of %v: %s; start it again", e, s.Lease, what))
	}
	return next
}

// updateLapsed lets the trainer continue without the explorers that have lost their lease, as long
// as there are others. If there are no others, the trainer waits for them.
func (s *Server) updateLapsed(ctx context.Context) error {
	s.known.mu.Lock()
	others := s.known.anyExpected()
	var lapsed []*explorer
	for _, e := range s.known.byName {
		if e.lapsed && !e.closed {
			lapsed = append(lapsed, e)
		}
	}
	s.known.mu.Unlock()
	for _, e := range lapsed {
		if err := s.excuse(ctx, e, others); err != nil {
			return err
		}
	}
	return s.updateNewcomers(ctx)
}

// excuse tells the buffer whether to wait for an explorer that has lost its lease.
func (s *Server) excuse(ctx context.Context, e *explorer, others bool) error {
	e.work.Lock()
	defer e.work.Unlock()
	s.known.mu.Lock()
	until, lapsed := e.Paused, e.lapsed
	s.known.mu.Unlock()
	if others {
		until = math.MaxInt64
	}
	if !lapsed || until == e.pausedInBuffer {
		return nil
	}
	return e.pause(ctx, until)
}

// newcomers makes the buffer wait for explorers that are yet to join: for the shares that no
// explorer has. Otherwise a trainer that knows the first of several explorers would take its
// experiences for all that there are, and train on part of a batch.
type newcomers struct {
	mu     sync.Mutex // guards:
	sink   trinity.Sink
	waited bool // the buffer waits for them
}

// updateNewcomers tells the buffer whether to wait for explorers that are yet to join.
func (s *Server) updateNewcomers(ctx context.Context) (err error) {
	s.newcomers.mu.Lock()
	defer s.newcomers.mu.Unlock()
	s.known.mu.Lock()
	wait := len(s.known.missing()) > 0
	s.known.mu.Unlock()
	if wait == s.newcomers.waited {
		return nil
	}
	if s.newcomers.sink == nil {
		s.newcomers.sink = s.Buffer.Sink(trinity.YetToJoin)
	}
	if wait {
		_, _, err = s.newcomers.sink.Resume(ctx)
	} else {
		err = s.newcomers.sink.Close(ctx)
	}
	if errors.Is(err, trinity.ErrEnded) { // the trainer takes no more deliveries
		return nil
	}
	if err == nil {
		s.newcomers.waited = wait
	}
	return err
}
