package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// explorer is what the trainer knows of one.
type explorer struct {
	name string
	sink trinity.Sink

	work      sync.Mutex // one request at a time changes what the buffer has of it, and guards:
	delivered int64      // number of its last delivery
	told      int64      // until which version the buffer was told that it pauses

	// The server's lock guards the rest.
	joining
	leave   context.CancelCauseFunc // ends the requests of the session
	session context.Context         // nil while nobody has joined by the name
	heard   time.Time
	gone    bool // its connection has ended
	lapsed  bool // its lease has run out
	closed  bool
	has     holding
	using
}

// there says that the explorer is expected to go on: it has joined, or is about to.
func (e *explorer) there() bool { return !e.lapsed && !e.closed }

// String is for people.
func (e *explorer) String() string {
	who := e.name
	if e.PID != 0 {
		who += fmt.Sprintf(" (host %s, pid %d)", e.Host, e.PID)
	}
	switch {
	case e.closed:
		return who + " has ended"
	case e.PID == 0:
		return who + " has not joined again"
	}
	who += " was last heard of " + ago(e.heard)
	if e.lapsed {
		who += " and has lost its lease"
	}
	return who
}

// rosterFile remembers, for a trainer that is taken up again, which explorers there are.
const rosterFile = "explorers.json"

type rosterEntry struct {
	Closed bool `json:"closed"`
	holding
}

// readRoster gives nil where there is none.
func readRoster(path string) (known map[string]rosterEntry, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &known); err != nil {
		return nil, fmt.Errorf("%s: %w; remove it, and start all explorers again, those that have ended too", path, err)
	}
	return known, nil
}

// recall expects the explorers that the trainer had before it was taken up again.
func (s *Server) recall(ctx context.Context) error {
	known, err := readRoster(filepath.Join(s.Dir, rosterFile))
	if err != nil {
		return err
	}
	if known == nil && s.Step == 0 {
		return nil
	}
	if known == nil { // so far the run was of mode both
		known = map[string]rosterEntry{s.Explorer: {}}
	}
	extended, err := s.extended()
	if err != nil {
		return err
	}
	for name, entry := range known {
		e := s.explorer(name)
		e.has = entry.holding
		switch {
		case extended: // also those that have closed: the buffer is open for them again
			_, err = e.resume(ctx, 0)
		case entry.Closed:
			e.closed = true
			err = e.sink.Close()
		default:
			err = e.sink.Pause(ctx, 0) // the buffer waits for it
		}
		if err != nil {
			return err
		}
	}
	if !extended {
		return nil
	}
	return s.remember() // before the run is no longer said to have ended
}

// extended says whether the run has ended before and was given further steps since. One that has ended before its last step is not gone on with by the same command:
// its explorers have none.
func (s *Server) extended() (bool, error) {
	before, err := readAddress(filepath.Join(s.Dir, AddressFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	switch {
	case err != nil || !before.Ended || s.TotalSteps > 0 && s.Step >= s.TotalSteps:
		return false, err
	case s.TotalSteps == before.TotalSteps:
		s.Say(fmt.Sprintf("the run has ended at step %d, with all that its explorers had: to go on, set trainer.total_steps to another number above that, raise the explorers' total_steps or total_epochs, "+
			"and start the trainer before them", s.Step))
		return false, nil
	}
	return true, nil
}

// explorer returns the one of a name; the lock is held.
func (s *Server) explorer(name string) *explorer {
	e := s.explorers[name]
	if e == nil {
		e = &explorer{name: name, sink: s.Buffer.Sink(name), heard: time.Now()}
		s.explorers[name] = e
	}
	return e
}

// remember writes the roster. The lock is held: it changes seldom.
func (s *Server) remember() error {
	known := map[string]rosterEntry{}
	for name, e := range s.explorers {
		known[name] = rosterEntry{e.closed, e.has}
	}
	data, err := json.Marshal(known)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(s.Dir, rosterFile), data)
}

// Explorers says of each who it is, when it was last heard of, and whether it has lost its lease.
func (s *Server) Explorers() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.explorers) == 0 {
		return "no explorer has joined"
	}
	var lines []string
	if missing := s.missingWords(); missing != "" {
		lines = append(lines, missing)
	}
	for _, e := range s.explorers {
		lines = append(lines, "explorer "+e.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// watch ends the sessions of explorers whose lease has run out, until ctx is cancelled.
func (s *Server) watch(ctx context.Context) error {
	for {
		s.mu.Lock()
		next := s.lapse()
		changed := s.point.Next()
		s.mu.Unlock()
		if err := s.settle(ctx); err != nil {
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

// lapse ends what is due and says when the next is; the lock is held.
func (s *Server) lapse() (next time.Duration) {
	next = time.Hour
	var lost []*explorer
	for _, e := range s.explorers {
		if !e.there() {
			continue
		}
		left := time.Until(e.heard.Add(s.Lease))
		if left > 0 {
			next = min(next, left)
			continue
		}
		e.lapsed = true
		if e.session != nil {
			e.leave(errLapsed)
			e.session = nil
		}
		lost = append(lost, e)
		s.signal()
	}
	for _, e := range lost {
		what := "the trainer waits for it"
		if s.others() {
			what = "the trainer goes on with the others"
		}
		s.Say(fmt.Sprintf("explorer %s of %v: %s; start it again", e, s.Lease, what))
	}
	return next
}

// others says whether any explorer is expected to go on; the lock is held.
func (s *Server) others() bool {
	for _, e := range s.explorers {
		if e.there() {
			return true
		}
	}
	return false
}

var errLapsed = errors.New("the lease of the explorer has run out")

// settle lets the trainer go on without the explorers that were not heard of, as long as there are others; if there are none it waits for them.
func (s *Server) settle(ctx context.Context) error {
	s.mu.Lock()
	others := s.others()
	var lapsed []*explorer
	for _, e := range s.explorers {
		if e.lapsed && !e.closed {
			lapsed = append(lapsed, e)
		}
	}
	s.mu.Unlock()
	for _, e := range lapsed {
		if err := s.excuse(ctx, e, others); err != nil {
			return err
		}
	}
	return s.expect(ctx)
}

// excuse tells the buffer whether to wait for an explorer whose lease has run out.
func (s *Server) excuse(ctx context.Context, e *explorer, others bool) error {
	e.work.Lock()
	defer e.work.Unlock()
	s.mu.Lock()
	until, lapsed := e.Paused, e.lapsed
	s.mu.Unlock()
	if others {
		until = math.MaxInt64
	}
	if !lapsed || until == e.told {
		return nil
	}
	return e.pause(ctx, until)
}

// pause tells the buffer until which version an explorer puts nothing; its work is locked.
func (e *explorer) pause(ctx context.Context, until int64) error {
	if err := e.sink.Pause(ctx, until); err != nil {
		return err
	}
	e.told = until
	return nil
}
