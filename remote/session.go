package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
)

// What an explorer is refused for; each is a status of its own.
var (
	errConflict  = errors.New("refused")   // it cannot go on
	errNoSession = errors.New("not known") // it is to join again
	errBad       = errors.New("not understood")
	errStage     = errors.New("at another stage") // which may pass
)

var errReplaced = errors.New("another process has joined by the name of this explorer")

// join makes a process the explorer of a name, and says where it is to go on.
func (s *Server) join(ctx context.Context, name string, j joining) (joined, error) {
	if err := s.understands(j); err != nil {
		return joined{}, err
	}
	e, ended, err := s.admit(ctx, name, j)
	if err != nil {
		return joined{}, err
	}
	e.work.Lock()
	defer e.work.Unlock()
	at, err := e.resume(ctx, j.Paused)
	if errors.Is(err, trinity.ErrEnded) {
		s.turnAway(e)
	}
	if err != nil {
		return joined{}, err
	}
	if err := s.take(ctx, e, at.Delivery); err != nil {
		return joined{}, errors.Join(err, s.turnDown(e, ended))
	}
	if at.Cursor == nil && s.Step > 0 {
		s.Say(fmt.Sprintf("explorer %s is new to this run, which goes on after step %d: it begins with its first rows, whatever others have explored", name, s.Step))
	}
	return joined{Delivered: at.Delivery, Cursor: at.Cursor, Lease: s.Lease}, nil
}

// turnDown closes an explorer again that had ended before, and that was refused its share.
func (s *Server) turnDown(e *explorer, ended bool) error {
	s.mu.Lock()
	refused := ended && e.session == nil
	e.closed = e.closed || refused
	s.signal()
	s.mu.Unlock()
	if !refused {
		return nil
	}
	return e.sink.Close()
}

// turnAway notes that an explorer learns, as it joins, that training has ended: nobody waits for it.
func (s *Server) turnAway(e *explorer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.closed = true
	s.signal()
	s.Say("explorer " + e.String())
}

// resume finds out which delivery of an explorer the buffer has last; its work is locked.
func (e *explorer) resume(ctx context.Context, paused int64) (at counted, err error) {
	e.unsure = true
	if at, err = resumed(ctx, e.name, e.sink); err != nil {
		return at, err
	}
	if err := e.pause(ctx, paused); err != nil {
		return at, err
	}
	e.delivered, e.unsure = at.Delivery, false
	return at, nil
}

// recount is resume where to join, or to put a delivery, has failed: what the buffer has last is not known then. Its work is locked.
func (s *Server) recount(ctx context.Context, e *explorer) error {
	s.mu.Lock()
	closed, paused := e.closed, e.Paused
	s.mu.Unlock()
	if !e.unsure || closed { // to resume would open it again
		return nil
	}
	_, err := e.resume(ctx, paused)
	return err
}

// understands refuses explorers of another program or another rule of synchronization.
func (s *Server) understands(j joining) error {
	switch {
	case j.Protocol != protocol:
		return fmt.Errorf("%w: the explorer speaks version %d of the protocol, and the trainer %d: run the same program on both", errConflict, j.Protocol, protocol)
	case j.Stage != s.Stage:
		return fmt.Errorf("%w: the trainer is at %s, and the explorer of %s", errStage, stageWords(s.Stage), stageWords(j.Stage))
	case j.Style != s.Style:
		return fmt.Errorf("%w: synchronizer.sync_style of the explorer is %s, and of the trainer %s: set both to the same", errConflict, j.Style, s.Style)
	case j.Algorithm != s.Algorithm:
		return fmt.Errorf("%w: algorithm.algorithm_type of the explorer is %s, and of the trainer %s: set both to the same", errConflict, j.Algorithm, s.Algorithm)
	case j.Session == "":
		return fmt.Errorf("%w: a session is missing", errBad)
	case !j.Share.valid():
		return fmt.Errorf("%w: share %d of %d; there may be %d", errConflict, j.Share.Part, j.Share.Of, maxShares)
	}
	return nil
}

func stageWords(name string) string {
	if name == "" {
		return "a run without stages"
	}
	return "stage " + name
}

// admit gives the name to the session once nobody else has it: for as long as a lease, at most, it waits for a sign of life of the process that has. ended says that
// the explorer of the name had closed.
func (s *Server) admit(ctx context.Context, name string, j joining) (e *explorer, ended bool, err error) {
	s.mu.Lock()
	heard := time.Now()
	if e := s.explorers[name]; e != nil {
		heard = e.heard
	}
	s.mu.Unlock()
	taken := func() bool {
		e := s.explorers[name]
		return e != nil && e.session != nil && e.Session != j.Session && !e.gone && !e.closed
	}
	if err := s.await(ctx, func() bool { return !taken() || s.explorers[name].heard.After(heard) }); err != nil {
		return nil, false, err
	}
	defer s.mu.Unlock()
	if other := s.rival(name, j); other != nil {
		return nil, false, fmt.Errorf("%w: explorer %s has the share %s of the same rows: give this one another explorer.share, or the explorer.name %s to go on for it", errConflict, other, j.Share, other.name)
	}
	e = s.explorer(name)
	if taken() {
		return nil, false, fmt.Errorf("%w: an explorer named %s is alive, on host %s with pid %d, heard of %s: give this one another explorer.name", errConflict, name, e.Host, e.PID, ago(e.heard))
	}
	if e.session != nil {
		e.leave(errReplaced)
	}
	ended = e.closed
	e.joining, e.heard, e.gone, e.lapsed, e.closed = j, time.Now(), false, false, false
	e.session, e.leave = context.WithCancelCause(context.Background())
	s.signal()
	s.Say(fmt.Sprintf("explorer %s (host %s, pid %d) has joined", name, j.Host, j.PID))
	return e, ended, nil
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

// inSession notes what an explorer has said, with the lock held, unless another process has joined by its name while the request waited.
func (s *Server) inSession(session context.Context, note func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := context.Cause(session); err != nil {
		return err
	}
	note()
	return nil
}

// uses notes which weights an explorer has, and says whether they are those that were published; the lock is held.
func (s *Server) uses(e *explorer, u using) {
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
