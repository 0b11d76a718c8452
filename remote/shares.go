package remote

import (
	"context"
	"fmt"
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

// valid says that there is such a share.
func (s Share) valid() bool { return s.Part >= 1 && s.Part <= s.Of && s.Of <= maxShares }

// absent has the buffer wait for explorers that are yet to join for the first time: those of the shares that nobody has taken up. A trainer that knew of the first of several
// alone would take what that one gave for all that there is, and train on part of a batch.
type absent struct {
	parts int // into which the rows are divided, as the explorer said that joined last; 0 before. The server's lock guards it.

	telling sync.Mutex // guards:
	sink    trinity.Sink
	waited  bool // whether the buffer was told to wait
}

// missing are the parts of the rows that nobody has; the lock is held.
func (s *Server) missing() (parts []string) {
	taken := map[Share]bool{}
	for _, e := range s.explorers {
		taken[e.has] = true
	}
	for part := range s.parts {
		if of := (Share{part + 1, s.parts}); !taken[of] {
			parts = append(parts, fmt.Sprintf("%d/%d", of.Part, of.Of))
		}
	}
	return parts
}

// missingWords is for people, "" if none is missing; the lock is held.
func (s *Server) missingWords() string {
	missing := s.missing()
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
		s.sink = s.Buffer.Sink("(yet to join)") // no explorer.name
	}
	if wait {
		_, err = s.sink.Resume(ctx)
	} else {
		err = s.sink.Close()
	}
	if err == nil {
		s.waited = wait
	}
	return err
}
