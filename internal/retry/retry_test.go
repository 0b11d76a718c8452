package retry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errAway    = errors.New("connection refused")
	errAnswer  = errors.New("no such table")
	errStopped = errors.New("interrupted")
)

// policy asks the server "db". All its errors pass, except errAnswer.
func policy(said *[]string) Policy {
	return Policy{
		Name: "db", Retries: 3, Interval: 5 * time.Second, Passes: func(err error) bool { return err != errAnswer }, Text: error.Error,
		Say: func(line string) { *said = append(*said, line) },
	}
}

// People hear once that a server is lost, and once that it is back, whatever it answers then.
func TestLines(t *testing.T) {
	const gone = "db: try 1 of 4 failed, the next follows in 5s (max_retry_times, max_retry_interval): connection refused"
	for name, c := range map[string]struct {
		answers []error // of one request after the other
		said    []string
		want    []string // errors
	}{
		"is there": {answers: []error{nil}, want: []string{""}},
		"says no":  {answers: []error{errAnswer}, want: []string{"no such table"}},
		"is back": {answers: []error{errAway, errAway, nil, nil}, said: []string{gone, "db: is there again, after 10s"},
			want: []string{"", ""}},
		"is back and says no": {answers: []error{errAway, errAnswer}, said: []string{gone, "db: is there again, after 5s"},
			want: []string{"no such table"}},
		"is away for too long": {answers: []error{errAway, errAway, errAway, errAway, errAway, nil},
			said: []string{gone, "db: is there again, after 20s"},
			want: []string{"db: tried 4 times, 5s apart (max_retry_times, max_retry_interval): connection refused", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(t.Context())
				var said, got []string
				for len(c.answers) > 0 {
					err := s.Ask(t.Context(), policy(&said), func(context.Context) error {
						answer := c.answers[0]
						c.answers = c.answers[1:]
						return answer
					})
					text := ""
					if err != nil {
						text = err.Error()
					}
					got = append(got, text)
				}
				if !slices.Equal(got, c.want) || !slices.Equal(said, c.said) {
					t.Errorf("errors %q, lines %q, want %q and %q", got, said, c.want, c.said)
				}
			})
		})
	}
}

// After the stop nothing is retried. A server gets 3 s to answer, and none if it is known to be away. A
// server that answers is still asked.
func TestStop(t *testing.T) {
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	refuses := func(context.Context) error { return errAway }
	for name, c := range map[string]struct {
		ask   func(context.Context) error
		after time.Duration // the stop, from the first request on
		took  time.Duration // the first request
	}{
		"between two tries": {refuses, 7 * time.Second, 7 * time.Second}, "while it is silent": {silent, 7 * time.Second, 10 * time.Second},
		"before": {silent, 0, 3 * time.Second}, "before, and it refuses": {refuses, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run, stop := context.WithCancelCause(t.Context())
				s, there := NewServer(run), NewServer(run)
				if c.after == 0 {
					stop(errStopped)
				} else {
					time.AfterFunc(c.after, func() { stop(errStopped) })
				}
				var said []string
				begin := time.Now()
				err := s.Ask(t.Context(), policy(&said), c.ask)
				if took := time.Since(begin); !errors.Is(err, errStopped) || !strings.HasPrefix(err.Error(), "db: ") || took != c.took {
					t.Errorf("%v after %v, want %v after %v", err, took, errStopped, c.took)
				}
				begin = time.Now()
				if err := s.Ask(t.Context(), policy(&said), c.ask); !errors.Is(err, errStopped) || time.Since(begin) != 0 {
					t.Errorf("again: %v after %v, want %v at once", err, time.Since(begin), errStopped)
				}
				if err := there.Ask(t.Context(), policy(&said), func(context.Context) error { return nil }); err != nil {
					t.Errorf("a server that answers: %v", err)
				}
			})
		})
	}
}

// An error after the context has ended names the cause and the last error.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errStopped)
		defer cancel()
		s := NewServer(t.Context())
		var said []string
		if err := s.Ask(ctx, policy(&said), func(context.Context) error { return errAway }); !errors.Is(err, errStopped) ||
			!strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%v, want both errors", err)
		}
	})
}
