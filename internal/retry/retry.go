// Package retry asks servers that may be away for a while. It retries, tells people once when a
// server is lost and once when it is back, and stops waiting when the run is stopped.
package retry

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Grace is how long a server may take to answer once the run is stopped. A server that answers
// still receives what the run has to store.
const Grace = 3 * time.Second

// Policy says how a server is asked.
type Policy struct {
	Name     string             // of the server, for people: without its password
	Retries  int                // after an error that may pass
	Interval time.Duration      // before each retry
	Passes   func(error) bool   // reports whether an error may pass
	Text     func(error) string // returns an error in one line
	Say      func(string)       // prints a line for people; may be nil
}

// Server remembers of a server whether it answers, and whether the run that uses it was stopped.
// The zero Server is ready, and safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	away    time.Time     // since when it does not answer; zero while it answers
	stopped chan struct{} // closed by Stop; made on first use
	cause   error         // of the stop
}

// Error says that a server did not answer; its text names the server.
type Error struct {
	text  string
	cause error
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// Unwrap returns why nobody asks any more, or the last error.
func (e *Error) Unwrap() error { return e.cause }

// Stop tells the server's users that the run was stopped. From then on Ask retries nothing, does
// not ask a server that is away, and waits Grace at most for any other.
func (s *Server) Stop(cause error) {
	stopped := s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = cause
		close(stopped)
	}
}

// Stopped reports whether Stop was called.
func (s *Server) Stopped() bool { return s.stopCause() != nil }

// Ask calls ask until it succeeds or returns an error that does not pass, which Ask returns as it
// is. All other errors are an *Error. The context of ask ends with ctx, and Grace after Stop.
func (s *Server) Ask(ctx context.Context, p Policy, ask func(context.Context) error) error {
	if cause := s.stopCause(); cause != nil && s.isAway() {
		return p.ended(cause)
	}
	asking, end := s.withGrace(ctx)
	defer end()
	for attempt := 1; ; attempt++ {
		err := ask(asking)
		switch {
		case err == nil, asking.Err() == nil && !p.Passes(err):
			s.answered(p)
			return err
		case ctx.Err() != nil:
			return p.ended(context.Cause(ctx))
		case asking.Err() != nil:
			s.lost()
			return p.ended(context.Cause(asking))
		case attempt > p.Retries:
			text := fmt.Sprintf("%s: tried %d times, %v apart (max_retry_times, max_retry_interval): %s", p.Name, attempt, p.Interval, p.Text(err))
			return &Error{text, err}
		}
		if s.lost() {
			p.say(fmt.Sprintf("%s: try %d of %d failed, the next follows in %v (max_retry_times, max_retry_interval): %s",
				p.Name, attempt, p.Retries+1, p.Interval, p.Text(err)))
		}
		if cause := s.rest(ctx, p.Interval); cause != nil {
			return &Error{fmt.Sprintf("%s: %s: %v", p.Name, p.Text(err), cause), cause}
		}
	}
}

// withGrace returns a context that ends with ctx, and Grace after Stop.
func (s *Server) withGrace(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-s.stop():
		}
		select {
		case <-ctx.Done():
		case <-time.After(Grace):
			cancel(s.stopCause())
		}
	}()
	return ctx, func() { cancel(nil) }
}

// rest waits before the next attempt. It returns the cause if there is to be none.
func (s *Server) rest(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
		return nil
	case <-s.stop():
		return s.stopCause()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stop returns the channel that Stop closes.
func (s *Server) stop() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped == nil {
		s.stopped = make(chan struct{})
	}
	return s.stopped
}

func (s *Server) stopCause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *Server) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.away.IsZero()
}

// lost notes that the server does not answer, and reports whether that is news.
func (s *Server) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.away.IsZero()
	if news {
		s.away = time.Now()
	}
	return news
}

// answered notes that the server has answered.
func (s *Server) answered(p Policy) {
	s.mu.Lock()
	since := s.away
	s.away = time.Time{}
	s.mu.Unlock()
	if !since.IsZero() {
		p.say(fmt.Sprintf("%s: is there again, after %v", p.Name, time.Since(since).Round(time.Second)))
	}
}

func (p Policy) ended(cause error) error { return &Error{fmt.Sprintf("%s: %v", p.Name, cause), cause} }

func (p Policy) say(line string) {
	if p.Say != nil {
		p.Say(line)
	}
}
