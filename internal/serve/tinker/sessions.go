package tinker

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// session is what a client has begun. Its models and its sampling sessions end with it.
type session struct {
	seen  time.Time     // last; guarded by the server's mutex
	ended chan struct{} // closed at its end
}

// silence is how long a session lives without a word of its client, which beats every 10 s and retries for 5 minutes.
const silence = 10 * time.Minute

func (s *Server) createSession(_ context.Context, body []byte) (any, error) {
	var in tinker.CreateSession
	if err := read(body, &in); err != nil {
		return nil, err
	}
	id := strings.ToLower(rand.Text())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[id] = &session{seen: time.Now(), ended: make(chan struct{})}
	return &tinker.Session{Type: "create_session", SessionID: id}, nil
}

// heartbeat keeps a session alive. Status 410 tells the client that it has ended.
func (s *Server) heartbeat(_ context.Context, body []byte) (any, error) {
	var in struct {
		SessionID string `json:"session_id"`
	}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	if s.touch(in.SessionID) == nil {
		return nil, gone("the session %.100q has ended", in.SessionID)
	}
	return map[string]string{"type": "session_heartbeat"}, nil
}

// touch notes that a client lives, and returns its session; nil if there is none. id may be that of what the session has.
func (s *Server) touch(id string) *session {
	id, _, _ = strings.Cut(id, ":")
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[id]
	if x != nil {
		x.seen = time.Now()
	}
	return x
}

// finish ends a session.
func (s *Server) finish(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(id)
}

// end ends a session with all that it has. The mutex is held. Its models remove themselves.
func (s *Server) end(id string) {
	x := s.sessions[id]
	if x == nil {
		return
	}
	close(x.ended)
	delete(s.sessions, id)
	for name, sampler := range s.samplers {
		if strings.HasPrefix(name, id+":") {
			delete(s.samplers, name)
			sampler.close()
		}
	}
}

// during returns a context that ends with the session, too.
func (x *session) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-x.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// numbered returns the id of what a session numbers, SESSION:KIND:NUMBER.
func (s *Server) numbered(id, kind string, number *int, field string) (*session, string, error) {
	if number == nil || *number < 0 {
		return nil, "", bad("%s is missing, or below 0", field)
	}
	x := s.touch(id)
	if x == nil {
		return nil, "", missing("there is no session %.100q: it has ended, or the service has begun anew, so create one", id)
	}
	return x, fmt.Sprintf("%s:%s:%d", id, kind, *number), nil
}
