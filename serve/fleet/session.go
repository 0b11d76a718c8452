package fleet

import (
	"context"
	"encoding/json"
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
	cursor, err := e.resume(ctx, j.Paused)
	if err != nil {
		s.turnAway(e, errors.Is(err, trinity.ErrEnded))
		return joined{}, err
	}
	if err := s.take(ctx, e, e.delivered); err != nil {
		return joined{}, errors.Join(err, s.turnDown(e, ended))
	}
	if e.delivered == 0 && s.Step > 0 {
		s.Say(fmt.Sprintf("explorer %s is new to this run, which goes on after step %d: it begins with its first rows, whatever others have explored", name, s.Step))
	}
	return joined{Delivered: e.delivered, Cursor: cursor, Lease: s.Lease}, nil
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

// turnAway notes that an explorer could not resume. If training has ended nobody waits for the explorer; otherwise its session ends, and it joins again.
func (s *Server) turnAway(e *explorer, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ended {
		e.closed = true
		s.Say("explorer " + e.String())
	} else {
		e.leave(errReplaced)
		e.session = nil
	}
	s.signal()
}

// resume returns the cursor after the last delivery of an explorer that the buffer has; its work is locked.
func (e *explorer) resume(ctx context.Context, paused int64) (json.RawMessage, error) {
	delivered, cursor, err := e.sink.Resume(ctx)
	if err != nil {
		return nil, err
	}
	e.delivered = delivered
	return cursor, e.pause(ctx, paused)
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
