package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// What an explorer is refused for; each is a status of its own.
var (
	errConflict  = errors.New("refused")   // it cannot go on
	errNoSession = errors.New("not known") // it is to join again
	errBad       = errors.New("not understood")
)

var errReplaced = errors.New("another process has joined by the name of this explorer")

// join makes a process the explorer of a name, and says where it is to go on.
func (s *Server) join(ctx context.Context, name string, j joining) (joined, error) {
	if err := s.understands(j); err != nil {
		return joined{}, err
	}
	e, err := s.admit(ctx, name, j)
	if err != nil {
		return joined{}, err
	}
	e.work.Lock()
	defer e.work.Unlock()
	data, err := e.sink.Resume(ctx)
	if err != nil {
		return joined{}, err
	}
	var at counted
	if len(data) > 0 {
		if err := json.Unmarshal(data, &at); err != nil {
			return joined{}, fmt.Errorf("the buffer's cursor of explorer %s is of another kind of run: %w", name, err)
		}
	}
	if err := e.pause(ctx, j.Paused); err != nil {
		return joined{}, err
	}
	e.delivered = at.Delivery
	return joined{Delivered: at.Delivery, Cursor: at.Cursor, Lease: s.Lease}, nil
}

// understands refuses explorers of another program or another rule of synchronization.
func (s *Server) understands(j joining) error {
	switch {
	case j.Protocol != protocol:
		return fmt.Errorf("%w: the explorer speaks version %d of the protocol, and the trainer %d: run the same program on both", errConflict, j.Protocol, protocol)
	case j.Style != s.Style:
		return fmt.Errorf("%w: synchronizer.sync_style of the explorer is %s, and of the trainer %s: set both to the same", errConflict, j.Style, s.Style)
	case j.Session == "":
		return fmt.Errorf("%w: a session is missing", errBad)
	}
	return nil
}

// admit gives the name to the session once nobody else has it: for as long as a lease, at most, it waits for a sign of life of the process that has.
func (s *Server) admit(ctx context.Context, name string, j joining) (*explorer, error) {
	s.mu.Lock()
	e := s.explorer(name)
	heard := e.heard
	s.mu.Unlock()
	taken := func() bool { return e.session != nil && e.Session != j.Session && !e.gone && !e.closed }
	if err := s.await(ctx, func() bool { return !taken() || e.heard.After(heard) }); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if taken() {
		return nil, fmt.Errorf("%w: an explorer named %s is alive, on host %s with pid %d, heard of %s: give this one another explorer.name", errConflict, name, e.Host, e.PID, ago(e.heard))
	}
	if e.session != nil {
		e.leave(errReplaced)
	}
	known := e.PID != 0 && !e.closed
	e.joining, e.heard, e.gone, e.lapsed, e.closed = j, time.Now(), false, false, false
	e.session, e.leave = context.WithCancelCause(context.Background())
	s.signal()
	s.Say(fmt.Sprintf("explorer %s (host %s, pid %d) has joined", name, j.Host, j.PID))
	if known {
		return e, nil
	}
	return e, s.remember()
}

// of finds the explorer of a request that bears its session, and notes that it was heard of.
func (s *Server) of(name, session string) (*explorer, context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.explorers[name]
	switch {
	case e == nil || e.session == nil:
		return nil, nil, fmt.Errorf("%w: no explorer %s has joined", errNoSession, name)
	case e.Session != session:
		return nil, nil, fmt.Errorf("%w: %w: that of host %s, pid %d", errConflict, errReplaced, e.Host, e.PID)
	}
	e.heard, e.gone = time.Now(), false
	s.signal()
	return e, e.session, nil
}

// alive is held for a third of the lease: when its connection ends meanwhile, the explorer is gone.
func (s *Server) alive(ctx context.Context, e *explorer, session context.Context) {
	timer := time.NewTimer(s.Lease / 3)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-session.Done():
	case <-s.closing.Done():
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.session == session {
			e.gone = true
			s.signal()
		}
	}
}

// uses notes which weights an explorer has, and says whether they are those that were published.
func (s *Server) uses(e *explorer, u using) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.using = u
	verdict := "which this trainer has not"
	for _, w := range s.versions {
		switch {
		case w.Version != e.Version:
		case w.Digest == e.Digest:
			verdict = "as published"
		default:
			verdict = "but " + short(w.Digest) + " was published"
		}
	}
	s.Note(fmt.Sprintf("explorer %s has version %d, sha256 %s, %s", e.name, e.Version, short(e.Digest), verdict))
}
