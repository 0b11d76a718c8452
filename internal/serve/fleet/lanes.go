package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/trace"
)

// Lane is a trace that keeps the spans of one process of an explorer that does not see the trainer's directory.
type Lane interface {
	Line(trace.Span)
	Close() error
}

// lanes are the open lanes, by the names of explorers. Each process has a lane of its own, as it would
// have files of its own: so readers of the trace know which steps a resumed explorer did again.
type lanes struct {
	mu sync.Mutex
	of map[string]*lane
}

// lane is what the trainer knows of the spans of an explorer's process.
type lane struct {
	Lane           // nil if it cannot be opened
	session string // of the process
	last    int64  // number of the last batch
	refused int64  // spans that no explorer sends
}

// farSpan is how far from now a span may be that the trainer keeps: a wrong clock must not stretch the time
// of a run. A clock that was set back has spans in the future.
const farSpan = 24 * time.Hour

func (s *Server) handleSpans(w http.ResponseWriter, r *http.Request) {
	came := s.arrive()
	var b batch
	e, during, err := s.sender(r)
	if err == nil {
		err = readBody(w, r, maxBatch, &b)
	}
	if err == nil {
		err = during.err()
	}
	if err == nil && s.Lane != nil {
		s.keep(e.name, r.Header.Get(sessionHeader), b)
	}
	answer(w, came.timing(), err)
}

// keep keeps a batch of spans of an explorer, unless the trainer has it.
func (s *Server) keep(name, session string, b batch) {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	l := s.lanes.of[name]
	if l == nil || l.session != session {
		s.closeLane(name)
		l = &lane{session: session}
		if opened, err := s.Lane(); err == nil {
			l.Lane = opened
		} else {
			s.Say(fmt.Sprintf("the trace lacks the spans of explorer %s: %v", name, err))
		}
		if s.lanes.of == nil {
			s.lanes.of = map[string]*lane{}
		}
		s.lanes.of[name] = l
	}
	if b.Number <= l.last || l.Lane == nil {
		return
	}
	l.last = b.Number
	now := s.now()
	for i, text := range b.Spans {
		if span, ok := readSpan(text, now); ok && i < maxSpans {
			span.Role = config.ExplorerRole(span.Role, name)
			l.Line(span)
		} else {
			l.refused++
		}
	}
}

// readSpan returns the span of a line; false if it is none that an explorer sends.
func readSpan(text []byte, now time.Time) (s trace.Span, ok bool) {
	if err := json.Unmarshal(text, &s); err != nil {
		return s, false
	}
	isWord := func(c rune) bool { return c == '_' || 'a' <= c && c <= 'z' }
	kind := string(s.Kind)
	switch {
	case s.Role != trinity.RoleExplorer && s.Role != trinity.RoleEvaluation,
		kind == "" || len(kind) > 32 || strings.TrimFunc(kind, isWord) != "",
		len(s.Name) > maxText || len(s.For) > maxText || len(s.ID) > maxText,
		s.Step < 0 || s.Version < 0,
		s.Begin > s.End, s.Begin < now.Add(-farSpan).UnixMicro(), s.End > now.Add(farSpan).UnixMicro():
		return s, false
	}
	return s, true
}

// closeLane closes the lane of an explorer, if it has one. The lock of lanes is held.
func (s *Server) closeLane(name string) {
	l := s.lanes.of[name]
	delete(s.lanes.of, name)
	if l == nil || l.Lane == nil {
		return
	}
	if l.refused > 0 {
		s.Say(fmt.Sprintf("the trace lacks %d spans of explorer %s that it cannot have sent: run the same program on both", l.refused, name))
	}
	if err := l.Close(); err != nil {
		s.Say(fmt.Sprintf("the trace of explorer %s: %v", name, err))
	}
}

// closeLanes closes the lanes of all explorers.
func (s *Server) closeLanes() {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	for name := range s.lanes.of {
		s.closeLane(name)
	}
}
