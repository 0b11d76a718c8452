package tinker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// noRoom is why a trainer cannot be opened now: its memory is in use.
type noRoom struct{ error }

func (e *noRoom) Unwrap() error { return e.error }

// isForLackOfRoom marks an error of opening a trainer that may go when others leave memory.
func isForLackOfRoom(err error) error {
	if err == nil || errors.As(err, new(*ownError)) || errors.As(err, new(*problem)) || errors.As(err, new(*trinity.EngineError)) {
		return err
	}
	return &noRoom{err}
}

// roomPoll is how long models have to leave memory before another one tries again.
const roomPoll = 200 * time.Millisecond

// inRoom runs do while nothing else computes. If there is no room in memory, it asks models that have nothing
// to do to leave, and tries again until patience has passed. A new model tries again only if there are such models.
func (m *model) inRoom(ctx context.Context, s *Server, patience time.Duration, do func() error) error {
	for until := time.Now().Add(patience); ; {
		err := s.alone(ctx, m, do)
		asked := 0
		if errors.As(err, new(*noRoom)) {
			asked = m.makeRoom(s)
		}
		if !errors.As(err, new(*noRoom)) || m.making != nil && asked == 0 || time.Now().After(until) {
			return err
		}
		select {
		case <-time.After(roomPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// modelsOf returns the models of now. Who locks one of them must not hold the server's mutex: a model writes to the disk
// under its own.
func modelsOf(s *Server) []*model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.models))
}

// makeRoom asks models that have nothing to do to leave memory, and returns how many it has asked.
func (m *model) makeRoom(s *Server) (asked int) {
	for _, other := range modelsOf(s) {
		other.mu.Lock()
		isIdle := other != m && len(other.held) == 0
		other.mu.Unlock()
		if !isIdle || !other.inMemory.Load() {
			continue
		}
		select {
		case other.out <- struct{}{}:
			asked++
		default: // it was asked already
		}
	}
	return asked
}

// goOut takes a model out of memory, with the gradient that no step has used. One that cannot leave stays until its next request.
func (m *model) goOut(ctx context.Context, s *Server) {
	if m.trainer == nil || m.stays {
		return
	}
	if err := s.alone(ctx, m, func() error { return m.leave(ctx, s) }); err != nil && ctx.Err() == nil {
		s.opts.Say(m.id + " stays in memory until its next request: " + err.Error())
		m.stays = true
	}
}
