package fleet

import (
	"context"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/weights"
)

// A request of a process has no effect once another process has joined by the same name, even if
// the request waited for long.
func TestRequestsOfAReplacedProcess(t *testing.T) {
	for name, request := range map[string]func(s *Server, e *explorer, replace func()) error{
		"close": func(s *Server, e *explorer, replace func()) error {
			session := e.session
			replace()
			return s.close(t.Context(), e, session)
		},
		"pause": func(s *Server, e *explorer, replace func()) error {
			session := e.session
			replace()
			return s.pause(t.Context(), e, session, 9)
		},
		"close, replaced while the buffer closes": func(s *Server, e *explorer, replace func()) error {
			session := e.session
			e.sink = replacedWhileClosing{e.sink, replace}
			return s.close(t.Context(), e, session)
		},
		"using": func(s *Server, e *explorer, replace func()) error {
			session := e.session
			replace()
			return s.inSession(session, func() { s.noteUse(e, weights.Version{Number: 9}) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := train(t, t.TempDir(), fixed, 0).Server
			join := func(session string) *explorer {
				e, _, err := s.admit(t.Context(), "left", joining{Protocol: protocol, Style: fixed, Host: "h", PID: 1, Session: session})
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			e := join("a")
			mention(t, request(s, e, func() {
				s.known.mu.Lock()
				e.gone = true
				s.known.mu.Unlock()
				join("b")
			}), errReplaced.Error())
			if plain, wrapped := e.sink.(replacedWhileClosing); wrapped {
				e.sink = plain.Sink
			}
			e, session, err := s.requester("left", "b")
			if err != nil {
				t.Fatal(err)
			}
			if e.closed || e.Paused != 0 || e.pausedInBuffer != 0 || e.using.Number != 0 {
				t.Errorf("closed %v, paused until %d, buffer was told %d, version %d", e.closed, e.Paused, e.pausedInBuffer, e.using.Number)
			}
			e.work.Lock()
			_, err = e.resume(t.Context(), 0) // the second half of join
			e.work.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.put(t.Context(), e, session, 1, trinity.Delivery{Groups: group(1, 1)}); err != nil {
				t.Errorf("the successor cannot deliver: %v", err)
			}
		})
	}
}

// replacedWhileClosing is a sink during whose Close another process joins by the name.
type replacedWhileClosing struct {
	trinity.Sink
	replace func()
}

func (s replacedWhileClosing) Close(ctx context.Context) error {
	s.replace()
	return s.Sink.Close(ctx)
}
