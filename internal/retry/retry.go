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

// Server remembers of a server whether it answers. It is safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	away    time.Time       // since when it does not answer; zero while it answers
	stopped <-chan struct{} // closed when the run is stopped
	cause   func() error    // of the stop; returns nil before it
}

// NewServer returns a server for a run. When ctx ends, the run is stopped: from then on Ask retries
// nothing, does not ask a server that is away, and waits Grace at most for any other.
func NewServer(ctx context.Context) *Server {
	return &Server{stopped: ctx.Done(), cause: func() error { return context.Cause(ctx) }}
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

// Stopped reports whether the run was stopped.
func (s *Server) Stopped() bool { return s.cause() != nil }

// Ask calls ask until it succeeds or returns an error that does not pass, which Ask returns as it
// is. All other errors are an *Error. The context of ask ends with ctx, and Grace after the stop.
func (s *Server) Ask(ctx context.Context, p Policy, ask func(context.Context) error) error {
	if s.Stopped() && s.isAway() {
		return p.ended(s.cause())
	}
	waiting, asking, end := s.withGrace(ctx)
	defer end()
	attempts, err := persist(waiting, func() error { return ask(asking) }, func(attempt int, err error) (time.Duration, error) {
		if !p.Passes(err) || attempt > p.Retries {
			return 0, err
		}
		if s.lost() {
			p.say(fmt.Sprintf("%s: try %d of %d failed, the next follows in %v (max_retry_times, max_retry_interval): %s",
				p.Name, attempt, p.Retries+1, p.Interval, p.Text(err)))
		}
		return p.Interval, nil
	})
	switch {
	case err == nil, asking.Err() == nil && !p.Passes(err):
		s.answered(p)
		return err
	case waiting.Err() == nil:
		const tried = "%s: tried %d times, %v apart (max_retry_times, max_retry_interval): %s"
		return &Error{fmt.Sprintf(tried, p.Name, attempts, p.Interval, p.Text(err)), err}
	case ctx.Err() == nil: // the run was stopped
		s.lost()
	}
	cause := context.Cause(waiting)
	if asking.Err() != nil && !p.Passes(err) {
		return p.ended(cause)
	}
	return &Error{fmt.Sprintf("%s: %s: %v", p.Name, p.Text(err), cause), cause}
}

// withGrace returns a context that ends with ctx or at the stop, and one that ends with ctx or
// Grace after the stop.
func (s *Server) withGrace(ctx context.Context) (waiting, asking context.Context, end func()) {
	asking, cancel := context.WithCancelCause(ctx)
	waiting, stop := context.WithCancelCause(asking)
	go func() {
		select {
		case <-asking.Done():
			return
		case <-s.stopped:
			stop(s.cause())
		}
		select {
		case <-asking.Done():
		case <-time.After(Grace):
			cancel(s.cause())
		}
	}()
	return waiting, asking, func() { cancel(nil) }
}

// persist calls try until it succeeds, until ctx ends, or until pause returns the error to give up
// with. Otherwise pause returns the time until the next attempt.
func persist(
	ctx context.Context, try func() error, pause func(attempt int, err error) (time.Duration, error),
) (attempts int, err error) {
	for {
		attempts++
		if err = try(); err == nil || ctx.Err() != nil {
			return attempts, err
		}
		wait, final := pause(attempts, err)
		if final != nil {
			return attempts, final
		}
		select {
		case <-ctx.Done():
			return attempts, err
		case <-time.After(wait):
		}
	}
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
