package tinker

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// session is what a client has begun. Its models and its sampling sessions end with it.
type session struct {
	id       string
	owner    string // the name of the key that began it
	made     time.Time
	name     string // that the client shows
	metadata map[string]string
	project  string        // guarded by the server's mutex, as are seen, models and damaged
	seen     time.Time     // last
	ended    chan struct{} // closed at its end
	models   int           // that have files open
	damaged  bool          // a model of it cannot be read: its files stay while its client is silent
}

// String says which session it is.
func (x *session) String() string { return "the session " + x.id }

// silence is how long a session lives without a word of its client, which beats every 10 s and retries for 5 minutes.
const silence = 10 * time.Minute

func (s *Server) createSession(ctx context.Context, body []byte) (any, error) {
	var in tinker.CreateSession
	if err := read(body, &in); err != nil {
		return nil, err
	}
	about, err := texts(in.UserMetadata)
	if err == nil {
		err = isShort("display_name and project_id", len(in.DisplayName)+len(in.ProjectID))
	}
	if err == nil {
		s.mu.Lock()
		err = tooMany("sessions", maxSessions, s.sessions, func(x *session) bool { return x.owner == Owner(ctx) })
		s.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	id := strings.ToLower(rand.Text())
	x := &session{
		id: id, owner: Owner(ctx), made: time.Now(), name: in.DisplayName, metadata: about, project: in.ProjectID,
		seen: time.Now(), ended: make(chan struct{}),
	}
	if err := s.all.store.keepSession(x); err != nil {
		return nil, full(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[id] = x
	return &tinker.Session{Type: "create_session", SessionID: id}, nil
}

// maxSessions bounds the sessions of a key, and maxSamplers their sampling sessions. Each has a file, and lives without a client for
// a while.
const maxSessions, maxSamplers = 4096, 1 << 16

// tooMany returns an error if there are as many of what a key has as it may have.
func tooMany[T any](what string, most int, all map[string]T, isIts func(T) bool) error {
	n := 0
	for _, x := range all {
		if isIts(x) {
			n++
		}
	}
	if n < most {
		return nil
	}
	text := fmt.Sprintf("this key has %d %s: end a session, such as by ServiceClient.close()", n, what)
	return &problem{status: http.StatusForbidden, text: text}
}

// heartbeat keeps a session alive. Status 410 tells the client that it has ended.
func (s *Server) heartbeat(ctx context.Context, body []byte) (any, error) {
	var in struct {
		SessionID string `json:"session_id"`
	}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	if s.touch(Owner(ctx), in.SessionID) == nil {
		return nil, gone("the session %.100q has ended", in.SessionID)
	}
	return map[string]string{"type": "session_heartbeat"}, nil
}

// touch notes that a client lives, and returns its session; nil if it has none of this id. id may be that of what the
// session has.
func (s *Server) touch(owner, id string) *session {
	id, _, _ = strings.Cut(id, ":")
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[id]
	if x == nil || x.owner != owner {
		return nil
	}
	x.seen = time.Now()
	return x
}

// finish ends a session of an owner.
func (s *Server) finish(owner, id string) {
	s.mu.Lock()
	x := s.sessions[id]
	isOwn := x != nil && x.owner == owner
	var had []*sampler
	if isOwn {
		had = s.end(id)
	}
	s.mu.Unlock()
	closeAll(had)
	if isOwn {
		s.clear(x)
	}
}

// end ends a session with all that it has, and returns its samplers, which the caller closes without the mutex. Its models
// remove themselves. The mutex is held.
func (s *Server) end(id string) (had []*sampler) {
	x := s.sessions[id]
	if x == nil {
		return nil
	}
	close(x.ended)
	delete(s.sessions, id)
	for name, sampler := range s.samplers {
		if strings.HasPrefix(name, id+":") {
			delete(s.samplers, name)
			had = append(had, sampler)
		}
	}
	return had
}

// hasEnded reports whether the session has ended.
func (x *session) hasEnded() bool {
	select {
	case <-x.ended:
		return true
	default:
		return false
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
func (s *Server) numbered(owner, id, kind string, number *int, field string) (*session, string, error) {
	if number == nil || *number < 0 {
		return nil, "", bad("%s is missing, or below 0", field)
	}
	x := s.touch(owner, id)
	if x == nil {
		return nil, "", missing("there is no session %.100q: it has ended, or another key began it; create one", id)
	}
	return x, fmt.Sprintf("%s:%s:%d", id, kind, *number), nil
}
