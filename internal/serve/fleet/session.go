package fleet

import "context"

// session is the time during which one process has the name of an explorer.
type session struct {
	over chan struct{} // closed at the end
	why  error         // why it ended; set before over is closed
}

func newSession() *session { return &session{over: make(chan struct{})} }

// end ends the session, unless it has ended.
func (s *session) end(why error) {
	if s.err() == nil {
		s.why = why
		close(s.over)
	}
}

// err returns why the session has ended, or nil if it has not.
func (s *session) err() error {
	select {
	case <-s.over:
		return s.why
	default:
		return nil
	}
}

// within returns a context that also ends with the session.
func (s *session) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.over:
			cancel(s.why)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
