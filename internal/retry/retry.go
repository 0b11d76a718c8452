// Package retry asks servers that may be away for a while: again and again, with a line for people
// when that begins and one when it is over. A run that is stopped does not wait for a server that
// is away.
package retry

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Grace is for how long a server may take to answer once the run is stopped. One that answers is
// still told what the run has to say.
const Grace = 3 * time.Second

// Policy says how a server is asked.
type Policy struct {
	Name     string             // of the server, for people: without its password
	Retries  int                // after an error that may pass
	Interval time.Duration      // between them
	Passes   func(error) bool   // may an error pass?
	Text     func(error) string // is an error in one line
	Quit     <-chan struct{}    // closed where nothing is to be tried again; nil is never
	Stop     context.Context    // ends when the run is stopped: nothing is tried again then, or waited for longer than Grace; nil is never
	Say      func(string)       // is told when a server goes, and when it is back; nil is not
}

// Server is what is known of a server. The zero Server is ready, and safe for concurrent use.
type Server struct {
	mu   sync.Mutex
	away time.Time // since when; zero while it answers
}

// Error says that a server was asked in vain; its text names it.
type Error struct {
	text  string
	cause error
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// Unwrap is why nobody asks any more, or what went wrong last.
func (e *Error) Unwrap() error { return e.cause }

// Ask asks until there is an answer, which an error may be that does not pass: that is returned as
// it is, all else is an *Error. The context of ask ends with ctx, and Grace after the run was
// stopped.
func (s *Server) Ask(ctx context.Context, p Policy, ask func(context.Context) error) error {
	if p.stopped() && s.isAway() {
		return p.ended(context.Cause(p.Stop))
	}
	asking, end := p.bounded(ctx)
	defer end()
	for try := 1; ; try++ {
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
		case try > p.Retries:
			return &Error{fmt.Sprintf("%s: tried %d times, %v apart (max_retry_times, max_retry_interval): %s", p.Name, try, p.Interval, p.Text(err)), err}
		}
		if s.lost() {
			p.say(fmt.Sprintf("%s: try %d of %d failed, the next follows in %v (max_retry_times, max_retry_interval): %s", p.Name, try, p.Retries+1, p.Interval, p.Text(err)))
		}
		if cause := p.rest(ctx); cause != nil {
			return &Error{fmt.Sprintf("%s: %s: %v", p.Name, p.Text(err), cause), cause}
		}
		select {
		case <-p.Quit:
			return &Error{p.Name + ": " + p.Text(err), err}
		default:
		}
	}
}

// bounded is the context of a request.
func (p Policy) bounded(ctx context.Context) (context.Context, func()) {
	if p.Stop == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(p.Stop, func() {
		select {
		case <-time.After(Grace):
			cancel(context.Cause(p.Stop))
		case <-ctx.Done():
		}
	})
	return ctx, func() { unhook(); cancel(nil) }
}

// rest waits before the next try, and says why there is to be none.
func (p Policy) rest(ctx context.Context) error {
	var stop <-chan struct{}
	if p.Stop != nil {
		stop = p.Stop.Done()
	}
	select {
	case <-time.After(p.Interval):
	case <-p.Quit:
	case <-stop:
		return context.Cause(p.Stop)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

func (p Policy) stopped() bool { return p.Stop != nil && p.Stop.Err() != nil }

func (p Policy) ended(cause error) error { return &Error{fmt.Sprintf("%s: %v", p.Name, cause), cause} }

func (p Policy) say(line string) {
	if p.Say != nil {
		p.Say(line)
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

// answered notes that the server has.
func (s *Server) answered(p Policy) {
	s.mu.Lock()
	since := s.away
	s.away = time.Time{}
	s.mu.Unlock()
	if !since.IsZero() {
		p.say(fmt.Sprintf("%s: is there again, after %v", p.Name, time.Since(since).Round(time.Second)))
	}
}
