package trinitytest

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"

	"github.com/trinity-go/trinity"
)

// errCause is the cause with which suites cancel contexts.
var errCause = errors.New("the suite has cancelled it")

// delivery returns a delivery with groups of the given sizes. Run numbers its experiences, and its
// cursor is the step.
func delivery(step int64, sizes ...int) trinity.Delivery {
	d := trinity.Delivery{Cursor: []byte(strconv.FormatInt(step, 10))}
	run := 0
	for _, n := range sizes {
		var g trinity.Group
		for range n {
			g = append(g, &trinity.Experience{ID: trinity.ExperienceID{Step: step, Task: "t", Run: run}, Tokens: []int32{1, 2},
				Mask: []bool{false, true}})
			run++
		}
		d.Groups = append(d.Groups, g)
	}
	return d
}

func (s Store) put(t *testing.T, step int64, sizes ...int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rescue)
	defer cancel()
	if err := s.Explorer.Put(ctx, delivery(step, sizes...)); err != nil {
		t.Fatal(err)
	}
}

// take asks for n experiences. It fails the test unless it gets n, or want[0] if that is given.
func (s Store) take(t *testing.T, n int, published int64, want ...int) []*trinity.Experience {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rescue)
	defer cancel()
	taken, err := s.Trainer.Take(ctx, s.want(n, published))
	got := taken.Experiences()
	if len(want) == 0 {
		want = []int{n}
	}
	if err != nil || len(got) != want[0] {
		t.Fatalf("Take(%d, %d): %d experiences, %v; want %d", n, published, len(got), err, want[0])
	}
	return got
}

func (s Store) takeInVain(t *testing.T, n int, published int64) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errCause)
	defer cancel()
	if got, err := s.Trainer.Take(ctx, s.want(n, published)); !errors.Is(err, errCause) {
		t.Errorf("Take(%d, %d): %d groups, %v; want a wait for the explorer that ends with the context's cause", n, published,
			len(got.Groups), err)
	}
}

func bufferFull(t *testing.T, capacity int, s Store) {
	s.put(t, 1, capacity)
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errCause)
	defer cancel()
	if err := s.Explorer.Put(ctx, delivery(2, 1)); !errors.Is(err, errCause) {
		t.Fatalf("Put into a full buffer: %v; want a wait that ends with the context's cause", err)
	}
	done := make(chan error)
	go func() { done <- s.Explorer.Put(t.Context(), delivery(3, capacity)) }()
	s.take(t, capacity, 0)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := s.take(t, capacity, 0); got[0].ID.Step != 3 {
		t.Errorf("took step %d, want 3: the failed Put added nothing", got[0].ID.Step)
	}
}

// bufferExplorers makes two explorers put, pause, close and resume independently.
func bufferExplorers(t *testing.T, open func(*testing.T, string) Store) {
	dir := t.TempDir()
	s := open(t, dir)
	if s.Second == nil {
		t.Skip("has one explorer only")
	}
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(s.Second.Put(t.Context(), delivery(7, 1)))
	for step := range int64(3) {
		s.put(t, step, 1)
	}
	if got := s.take(t, 2, 0); got[0].ID.Step != 7 || got[1].ID.Step != 0 {
		t.Errorf("took steps %d, %d; want them in order of arrival, 7, 0", got[0].ID.Step, got[1].ID.Step)
	}
	must(s.Explorer.Pause(t.Context(), 1))
	s.takeInVain(t, 3, 0) // the second may put more
	state, err := s.Trainer.State()
	must(err)
	if b, ok := s.Trainer.(trinity.Buffer); ok {
		must(b.Trim(t.Context(), state), b.Trim(t.Context(), state))
	}

	s = open(t, dir)
	must(s.Trainer.Restore(state))
	for want, sink := range map[string]trinity.Sink{"2": s.Explorer, "7": s.Second} {
		if _, cursor, err := sink.Resume(t.Context()); err != nil || string(cursor) != want {
			t.Errorf("an explorer resumes at %q, %v; want its own cursor, %s", cursor, err, want)
		}
	}
	s.takeInVain(t, 3, 0) // neither explorer puts more
	must(s.Explorer.Close(t.Context()), s.Second.Pause(t.Context(), 1))
	if got := s.take(t, 3, 0, 2); got[0].ID.Step != 1 || got[1].ID.Step != 2 {
		t.Errorf("took steps %d, %d; want 1, 2", got[0].ID.Step, got[1].ID.Step)
	}
	s.takeInVain(t, 1, 1)
	must(s.Second.Close(t.Context()))
	if _, err := s.Trainer.Take(t.Context(), s.want(1, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Take once both are closed: %v, want io.EOF", err)
	}
}
