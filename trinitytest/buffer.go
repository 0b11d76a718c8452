package trinitytest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// Store is a buffer under test, with a handle for each side.
type Store struct {
	Explorer trinity.Sink
	Second   trinity.Sink // another explorer's; nil if the buffer allows only one
	Trainer  trinity.Source
	Rollouts bool // Take counts rollouts, not experiences
}

// StoreOf returns a buffer of one process as a Store.
func StoreOf(b trinity.Buffer) Store {
	return Store{Explorer: b.Sink("explorer"), Second: b.Sink("second"), Trainer: b}
}

func (s Store) want(n int, published int64) trinity.Want {
	return trinity.Want{N: n, Rollouts: s.Rollouts, Published: published}
}

// Take takes n experiences from a source, for tests that ignore groups.
func Take(ctx context.Context, s trinity.Source, n int, published int64) ([]*trinity.Experience, error) {
	taken, err := s.Take(ctx, trinity.Want{N: n, Published: published})
	return taken.Experiences(), err
}

// BufferOptions hold what the documentation of a buffer leaves open or adds.
type BufferOptions struct {
	Capacity int // number of experiences at which Put waits, at least 9; 0 if it never waits
}

// patience bounds the waits that must time out. rescue bounds the waits that must end earlier.
const (
	patience = 20 * time.Millisecond
	rescue   = 30 * time.Second
)

// Buffer checks the contract of trinity.Buffer and trinity.Source. A buffer that gives experiences
// by priority must give equal ones oldest first and none twice. open opens both sides in a folder;
// a second call with the same folder is a resumed run. A buffer without files ignores the folder.
func Buffer(t *testing.T, o BufferOptions, open func(t *testing.T, dir string) Store) {
	for name, check := range map[string]func(*testing.T, Store){
		"first in, first out":          bufferOrder,
		"take waits for a whole batch": bufferWaits,
		"a pause gives short batches":  bufferPause,
		"close":                        bufferClose,
		"the trainer ends":             bufferEnds,
		"cancelled":                    bufferCancelled,
	} {
		t.Run(name, func(t *testing.T) { check(t, open(t, t.TempDir())) })
	}
	t.Run("state", func(t *testing.T) { bufferState(t, open) })
	t.Run("pending experiences come first", func(t *testing.T) { bufferPending(t, open) })
	t.Run("two explorers", func(t *testing.T) { bufferExplorers(t, open) })
	if o.Capacity > 0 {
		t.Run("a full buffer makes put wait", func(t *testing.T) { bufferFull(t, o.Capacity, open(t, t.TempDir())) })
	}
}

func bufferOrder(t *testing.T, s Store) {
	for step := range int64(3) {
		s.put(t, step, 1, 2)
	}
	var got [][2]int64
	for range 3 {
		for _, e := range s.take(t, 3, 0) {
			got = append(got, [2]int64{e.ID.Step, int64(e.ID.Run)})
		}
	}
	if want := [][2]int64{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}, {2, 0}, {2, 1}, {2, 2}}; !slices.Equal(got, want) {
		t.Errorf("took %v (step, run), want %v", got, want)
	}
}

func bufferWaits(t *testing.T, s Store) {
	s.put(t, 1, 3)
	s.takeInVain(t, 4, 0)
	taken := make(chan []*trinity.Experience)
	go func() {
		got, _ := s.Trainer.Take(t.Context(), s.want(4, 0))
		taken <- got.Experiences()
	}()
	s.put(t, 2, 1, 1)
	if got := <-taken; len(got) != 4 || got[0].ID.Step != 1 {
		t.Errorf("took %d, want the 3 of step 1 and 1 of step 2: a wait that times out loses nothing", len(got))
	}
}

func bufferPause(t *testing.T, s Store) {
	s.put(t, 1, 3)
	if err := s.Explorer.Pause(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	s.take(t, 5, 1, 3)
	s.take(t, 5, 1, 0)
	s.takeInVain(t, 5, 2) // version 2 is published, so the explorer may put more
}

func bufferClose(t *testing.T, s Store) {
	s.put(t, 1, 3)
	if err := s.Explorer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.take(t, 2, 0)
	s.take(t, 5, 0, 1)
	for range 2 {
		if got, err := s.Trainer.Take(t.Context(), s.want(1, 0)); !errors.Is(err, io.EOF) {
			t.Errorf("Take from a closed, empty buffer: %d groups, %v; want io.EOF", len(got.Groups), err)
		}
	}
	if err := s.Explorer.Put(t.Context(), delivery(2, 1)); !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("Put after Close: %v, want ErrEnded", err)
	}
	if _, _, err := s.Explorer.Resume(t.Context()); err != nil { // as after a restart
		t.Fatal(err)
	}
	s.put(t, 3, 1)
	s.take(t, 1, 0)
}

// bufferEnds closes the buffer while explorers work. An explorer that joins later gets ErrEnded, at
// the latest when it puts.
func bufferEnds(t *testing.T, s Store) {
	b, ok := s.Trainer.(trinity.Buffer)
	if !ok {
		t.Skip("is a source only")
	}
	s.put(t, 1, 1)
	s.take(t, 1, 0)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Explorer.Resume(t.Context())
	if err == nil {
		err = s.Explorer.Put(t.Context(), delivery(2, 1))
	}
	if !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("Resume, then Put, once the buffer is closed: %v, want ErrEnded", err)
	}
	if err := errors.Join(s.Explorer.Pause(t.Context(), 3), s.Explorer.Close(t.Context())); err != nil {
		t.Errorf("Pause and Close once the buffer is closed: %v", err)
	}
}

func bufferCancelled(t *testing.T, s Store) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	if _, err := s.Trainer.Take(ctx, s.want(1, 0)); !errors.Is(err, errCause) {
		t.Errorf("Take: %v, want the context's cause", err)
	}
}

func bufferState(t *testing.T, open func(*testing.T, string) Store) {
	dir := t.TempDir()
	s := open(t, dir)
	s.put(t, 1, 3)
	s.take(t, 1, 0)
	state, err := s.Trainer.State()
	if err != nil {
		t.Fatal(err)
	}
	s.take(t, 2, 0) // the kill loses these
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	var read trinity.SourceState
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if err := s.Trainer.Restore(read); err != nil {
		t.Fatal(err)
	}
	if n, cursor, err := s.Explorer.Resume(t.Context()); err != nil || n != 1 || string(cursor) != "1" {
		t.Errorf("the explorer resumes after delivery %d at %s, %v; want delivery 1 and its cursor, 1", n, cursor, err)
	}
	s.put(t, 2, 1)
	if got := s.take(t, 3, 0); got[0].ID.Run != 1 || got[1].ID.Run != 2 || got[2].ID.Step != 2 {
		t.Errorf("took %v, %v, %v; want the rest of step 1, then step 2", got[0].ID, got[1].ID, got[2].ID)
	}
	again, err := s.Trainer.State()
	if err != nil || len(again.Pending) != 0 {
		t.Errorf("state %+v, %v; want nothing pending", again, err)
	}
}

// bufferPending stops a run while a sample strategy holds a part of a batch. The pending
// experiences of a state come first, and stay in later states until a Take returns them.
func bufferPending(t *testing.T, open func(*testing.T, string) Store) {
	dir := t.TempDir()
	s := open(t, dir)
	s.put(t, 1, 4)
	held := s.take(t, 3, 0)
	state, err := s.Trainer.State()
	if err != nil {
		t.Fatal(err)
	}
	state.Pending = trinity.JoinGroups([]trinity.Group{held}, state.Pending...)
	for i := range 3 {
		s = open(t, dir)
		if err := s.Trainer.Restore(state); err != nil {
			t.Fatal(err)
		}
		s.takeInVain(t, 10, 0) // it takes nothing
		if got := s.take(t, 1, 0); got[0].ID.Run != i {
			t.Fatalf("took %v, want %d of step 1", got[0].ID, i)
		}
		if state, err = s.Trainer.State(); err != nil {
			t.Fatal(err)
		}
	}
	s.put(t, 2, 1)
	if got := s.take(t, 2, 0); got[0].ID.Run != 3 || got[1].ID.Step != 2 {
		t.Fatalf("took %v, %v; want the last of step 1, then step 2", got[0].ID, got[1].ID)
	}
	if state, err = s.Trainer.State(); err != nil || len(state.Pending) != 0 {
		t.Fatalf("%d are pending, %v; want none", len(state.Pending), err)
	}
}
