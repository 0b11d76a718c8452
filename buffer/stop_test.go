//go:build unix

package buffer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/trinitytest/server"
)

var (
	stores     = map[string]func(*testing.T) *server.Server{"postgresql": server.Postgres, "mysql": server.MariaDB}
	errStopped = errors.New("interrupted")
)

// lines collects what the buffer says.
type lines struct {
	mu   sync.Mutex
	said []string
	more chan struct{}
}

func (l *lines) say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, line)
	l.more <- struct{}{}
}

func opener(t *testing.T) trinity.BufferOpener {
	o, err := registry.Buffers.Build("sql")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A stopped run waits for no server that is gone, lost or silent.
func TestStoppedRunWaitsForNoServer(t *testing.T) {
	for kind, start := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			on := start(t)
			for _, frozen := range []bool{true, false} {
				stop, cancel := context.WithCancelCause(t.Context())
				told := &lines{more: make(chan struct{}, 100)}
				spec := trinity.BufferSpec{Name: "stop", Path: on.URL, Capacity: 100, Retries: 1000, RetryInterval: 20 * time.Millisecond,
					Say: told.say}
				b, err := opener(t).OpenBuffer(stop, spec)
				if err != nil {
					t.Fatal(err)
				}
				sink := b.Sink("explorer")
				put(t, sink, 1, 3)
				take(t, b, 2)
				state, err := b.State()
				if err != nil {
					t.Fatal(err)
				}
				if frozen {
					on.Freeze(t)
				} else {
					on.Kill(t)
				}
				ended := make(chan error)
				go func() {
					ended <- sink.Put(context.Background(), trinity.Delivery{Groups: []trinity.Group{group(2, 3)}})
				}()
				cancel(errStopped)
				stopped(t, "Put", <-ended)
				_, err = trinitytest.Take(stop, b, 9, 0)
				stopped(t, "Take", err)
				stopped(t, "Trim", b.Trim(context.Background(), state))
				if err := errors.Join(sink.Pause(context.Background(), 9), b.Close()); err != nil {
					t.Error(err)
				}
				if frozen {
					on.Kill(t)
				}
				if _, err := opener(t).OpenBuffer(stop, spec); !errors.Is(err, errStopped) {
					t.Errorf("OpenBuffer: %v, want %v", err, errStopped)
				}
				on.Start(t)
			}
		})
	}
}

func stopped(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, errStopped) {
		t.Errorf("%s: %v, want %v", what, err, errStopped)
	}
}

// A line says that the server is lost, and another that it is back.
func TestLostServerIsReported(t *testing.T) {
	for kind, start := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			on := start(t)
			told := &lines{more: make(chan struct{}, 100)}
			b, err := opener(t).OpenBuffer(t.Context(), trinity.BufferSpec{
				Name: "told", Path: on.URL, Capacity: 100, Retries: 1000, RetryInterval: 20 * time.Millisecond, Say: told.say,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			sink := b.Sink("explorer")
			put(t, sink, 1, 3)
			on.Kill(t)
			ended := make(chan error, 1)
			go func() {
				ended <- sink.Put(context.Background(), trinity.Delivery{Groups: []trinity.Group{group(2, 3)}})
			}()
			select {
			case <-told.more:
			case err := <-ended:
				t.Fatalf("nobody waits for the server: %v", err)
			}
			on.Start(t)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if len(told.said) != 2 || !strings.Contains(told.said[0], "try 1 of 1001 failed") || !strings.Contains(told.said[1], "is there again") ||
				!slices.ContainsFunc(told.said, func(line string) bool { return strings.HasPrefix(line, kind) }) ||
				strings.Contains(told.said[0], "\n") ||
				strings.Contains(told.said[0], "secret") {
				t.Errorf("told %q, want that the server is lost, and that it is back", told.said)
			}
		})
	}
}
