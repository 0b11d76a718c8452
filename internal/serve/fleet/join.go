package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
)

// Reasons to refuse a request. Each has its own status; see answer.
var (
	errConflict  = errors.New("refused")          // the explorer cannot continue
	errNoSession = errors.New("not known")        // the explorer joins again
	errBad       = errors.New("not understood")   // not a request of an explorer
	errStage     = errors.New("at another stage") // may pass
)

var errReplaced = errors.New("another process has joined by the name of this explorer")

// join makes a process the explorer of a name. The reply says where the explorer resumes.
func (s *Server) join(ctx context.Context, name string, j joining) (joinReply, error) {
	if !config.IsPlain(name) {
		return joinReply{}, fmt.Errorf("%w: %q is not the name of an explorer: set explorer.name to letters, digits, - and _", errBad, name)
	}
	if err := s.check(j); err != nil {
		return joinReply{}, err
	}
	e, reopened, err := s.admit(ctx, name, j)
	if err != nil {
		return joinReply{}, err
	}
	e.work.Lock()
	defer e.work.Unlock()
	cursor, err := e.resume(ctx, j.Paused)
	if err != nil {
		s.dismiss(e, errors.Is(err, trinity.ErrEnded))
		return joinReply{}, err
	}
	if err := s.assign(ctx, e, e.delivered); err != nil {
		return joinReply{}, errors.Join(err, s.closeAgain(ctx, e, reopened))
	}
	if e.delivered == 0 && s.Step > 0 {
		s.Say(fmt.Sprintf("explorer %s is new to this run, which resumes after step %d: "+
			"the explorer begins with its first rows, whatever others have explored", name, s.Step))
	}
	return joinReply{Delivered: e.delivered, Cursor: cursor, Lease: s.Lease, Spans: s.Lane != nil, Trainer: s.word}, nil
}

// check refuses an explorer of another program, or whose settings differ from the trainer's.
func (s *Server) check(j joining) error {
	switch {
	case j.Protocol != protocol:
		return fmt.Errorf("%w: the explorer speaks version %d of the protocol, and the trainer %d: run the same program on both",
			errConflict, j.Protocol, protocol)
	case j.Stage != s.Stage:
		return fmt.Errorf("%w: the trainer is at %s, and the explorer belongs to %s", errStage, stageText(s.Stage), stageText(j.Stage))
	case j.Style != s.Style:
		return fmt.Errorf("%w: synchronizer.sync_style of the explorer is %s, and of the trainer %s: set both to the same",
			errConflict, j.Style, s.Style)
	case j.Algorithm != s.Algorithm:
		return fmt.Errorf("%w: algorithm.algorithm_type of the explorer is %s, and of the trainer %s: set both to the same",
			errConflict, j.Algorithm, s.Algorithm)
	case j.Session == "":
		return fmt.Errorf("%w: the session is missing", errBad)
	case !j.Share.isValid():
		return fmt.Errorf("%w: share %d of %d; there may be %d shares", errConflict, j.Share.Part, j.Share.Of, maxShares)
	}
	return nil
}

func stageText(name string) string {
	if name == "" {
		return "a run without stages"
	}
	return "stage " + name
}

// admit gives a name to a process once no other process has it. It waits for a sign of life of the
// process that has the name, at most until the lease expires. reopened reports whether the explorer
// of the name had closed.
func (s *Server) admit(ctx context.Context, name string, j joining) (e *explorer, reopened bool, err error) {
	s.known.mu.Lock()
	heard := time.Now()
	if e := s.known.byName[name]; e != nil {
		heard = e.heard
	}
	s.known.mu.Unlock()
	isTaken := func() bool {
		e := s.known.byName[name]
		return e != nil && e.session != nil && e.Session != j.Session && !e.gone && !e.closed
	}
	if err := s.known.await(ctx, func() bool { return !isTaken() || s.known.byName[name].heard.After(heard) }); err != nil {
		return nil, false, err
	}
	defer s.known.mu.Unlock()
	if other := s.known.rival(name, j); other != nil {
		return nil, false, fmt.Errorf("%w: explorer %s has the share %s of the same rows: "+
			"give this one another explorer.share, or the explorer.name %s to replace it", errConflict, other, j.Share, other.name)
	}
	e = s.known.add(name, s.Buffer)
	if isTaken() {
		return nil, false, fmt.Errorf("%w: an explorer named %s is alive, on host %s with pid %d, last heard from %s: "+
			"give this one another explorer.name", errConflict, name, e.Host, e.PID, ago(e.heard))
	}
	e.end(errReplaced)
	reopened = e.closed
	e.joining, e.heard, e.gone, e.lapsed, e.closed = j, time.Now(), false, false, false
	e.session = newSession()
	s.known.changed.Signal()
	s.Say(fmt.Sprintf("explorer %s (host %s, pid %d) has joined", name, j.Host, j.PID))
	return e, reopened, nil
}

// assign gives an explorer its share of the rows. It must be called before the explorer's first
// delivery. e.work is held.
func (s *Server) assign(ctx context.Context, e *explorer, delivered int64) error {
	s.known.mu.Lock()
	complete, err := s.known.assign(e, delivered)
	if err == nil {
		if missing := s.known.missingText(); missing != "" {
			s.Say(missing + ": a batch that the others do not fill waits for that")
		}
		if complete && e.has.Of > 1 {
			s.Say(fmt.Sprintf("explorers have joined for all %d shares", e.has.Of))
		}
		err = s.known.write(s.Dir)
	}
	s.known.mu.Unlock()
	if err != nil {
		return err
	}
	return s.updateNewcomers(ctx)
}

// closeAgain closes an explorer that had ended before the trainer refused its new share.
func (s *Server) closeAgain(ctx context.Context, e *explorer, reopened bool) error {
	s.known.mu.Lock()
	refused := reopened && e.session == nil
	e.closed = e.closed || refused
	s.known.changed.Signal()
	s.known.mu.Unlock()
	if !refused {
		return nil
	}
	return e.sink.Close(ctx)
}

// dismiss notes that an explorer could not resume. If training has ended, the trainer
// does not wait for the explorer. Otherwise the explorer's session ends, and it joins again.
func (s *Server) dismiss(e *explorer, ended bool) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if ended {
		e.closed = true
		s.Say("explorer " + e.String())
	} else {
		e.end(errReplaced)
	}
	s.known.changed.Signal()
}

// requester returns the explorer of a request that carries the explorer's session, and notes that
// the trainer has heard from it.
func (s *Server) requester(name, word string) (*explorer, *session, error) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	e := s.known.byName[name]
	switch {
	case e == nil || e.session == nil:
		return nil, nil, fmt.Errorf("%w: no explorer %s has joined", errNoSession, name)
	case e.Session != word:
		return nil, nil, fmt.Errorf("%w: %w, from host %s with pid %d", errConflict, errReplaced, e.Host, e.PID)
	}
	e.heard, e.gone = time.Now(), false
	s.known.changed.Signal()
	return e, e.session, nil
}

// inSession calls note with the lock held, unless another process has joined by the explorer's name
// while the request waited.
func (s *Server) inSession(during *session, note func()) error {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if err := during.err(); err != nil {
		return err
	}
	note()
	return nil
}
