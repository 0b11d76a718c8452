package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
)

// Share is which of the rows an explorer has: part Part, from 1 on, of Of.
type Share struct {
	Part int `json:"part"`
	Of   int `json:"of"`
}

// maxShares is how many explorers may divide the rows.
const maxShares = 1 << 12

// String is as in explorer.share.
func (s Share) String() string { return fmt.Sprintf("%d/%d", s.Part, s.Of) }

// valid says that there is such a share.
func (s Share) valid() bool { return s.Part >= 1 && s.Part <= s.Of && s.Of <= maxShares }

// holding is what an explorer has taken up: nothing before it has joined.
type holding struct {
	Share
	Rows  string `json:"rows"`  // what tells the rows that are divided from others
	Whole bool   `json:"whole"` // whether every share of the division was taken up once
}

// absent has the buffer wait for explorers that are yet to join for the first time: those of the shares that nobody has taken up. A trainer that knew of the first of several
// alone would take what that one gave for all that there is, and train on part of a batch.
type absent struct {
	telling sync.Mutex // guards:
	sink    trinity.Sink
	waited  bool // whether the buffer was told to wait
}

// missing are the shares that nobody has taken up. The rows may be divided in several ways, by explorers of several tasksets or because that was changed: a division is
// waited for that was never whole, as long as somebody of it is there or has explored its rows. The lock is held.
func (s *Server) missing() (shares []Share) {
	divisions, others := map[int]bool{}, s.others()
	for _, e := range s.explorers {
		if !e.lapsed || !others { // if there are none the trainer waits for it
			divisions[e.has.Of] = true
		}
	}
	for _, of := range slices.Sorted(maps.Keys(divisions)) {
		if !s.whole(of) {
			shares = append(shares, s.free(of)...)
		}
	}
	return shares
}

// whole says that every share of a division was taken up once; the lock is held.
func (s *Server) whole(of int) bool {
	for _, e := range s.explorers {
		if e.has.Of == of && e.has.Whole {
			return true
		}
	}
	return false
}

// free are the shares of a division that nobody has taken up; the lock is held.
func (s *Server) free(of int) (shares []Share) {
	taken := map[int]bool{}
	for _, e := range s.explorers {
		if e.has.Of == of {
			taken[e.has.Part] = true
		}
	}
	for part := 1; part <= of; part++ {
		if !taken[part] {
			shares = append(shares, Share{part, of})
		}
	}
	return shares
}

// rival is an explorer that has, or is about to take up, the share of the same rows that another of a name wants, nil if there is none; the lock is held.
func (s *Server) rival(name string, j joining) *explorer {
	for _, e := range s.explorers {
		has, joins := e.has.Share == j.Share && e.has.Rows == j.Rows, e.session != nil && e.Share == j.Share && e.Rows == j.Rows
		if e.name != name && j.Share.Of > 1 && (has || joins) {
			return e
		}
	}
	return nil
}

// take counts an explorer that the buffer knows with the share that it has, before it puts anything.
func (s *Server) take(ctx context.Context, e *explorer, delivered int64) error {
	s.mu.Lock()
	err := s.hand(e, delivered)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.expect(ctx)
}

// hand gives an explorer its share; the lock is held.
func (s *Server) hand(e *explorer, delivered int64) error {
	if had := e.has.Share; had != e.Share && had.Of > 0 && delivered > 0 {
		e.leave(errReplaced)
		e.session = nil
		return fmt.Errorf("%w: explorer %s has explored the share %s of the rows, and now would have %s: set explorer.share back, or give this one another explorer.name", errConflict, e.name, had, e.Share)
	}
	e.has = holding{Share: e.Share, Rows: e.Rows}
	if missing := s.missingWords(); missing != "" {
		s.Say(missing + ": a batch that the others do not fill waits for that")
	}
	if !s.whole(e.has.Of) && len(s.free(e.has.Of)) == 0 {
		for _, other := range s.explorers {
			other.has.Whole = other.has.Whole || other.has.Of == e.has.Of
		}
		if e.has.Of > 1 {
			s.Say(fmt.Sprintf("explorers have joined for all %d shares", e.has.Of))
		}
	}
	return s.remember()
}

// missingWords is for people, "" if none is missing; the lock is held.
func (s *Server) missingWords() string {
	var missing []string
	for _, share := range s.missing() {
		missing = append(missing, share.String())
	}
	if len(missing) == 0 {
		return ""
	}
	return "nobody has joined yet for explorer.share " + strings.Join(missing, ", ")
}

// expect tells the buffer whether to wait for explorers that have not joined.
func (s *Server) expect(ctx context.Context) (err error) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.mu.Lock()
	wait := len(s.missing()) > 0
	s.mu.Unlock()
	if wait == s.waited {
		return nil
	}
	if s.sink == nil {
		s.sink = s.Buffer.Sink(trinity.YetToJoin)
	}
	if wait {
		_, _, err = s.sink.Resume(ctx)
	} else {
		err = s.sink.Close()
	}
	if errors.Is(err, trinity.ErrEnded) { // the trainer takes nothing more
		return nil
	}
	if err == nil {
		s.waited = wait
	}
	return err
}
