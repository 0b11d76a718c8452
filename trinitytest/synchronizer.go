package trinitytest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/weights"
)

// Synchronized is a synchronizer under test, at version 0, as trainer and explorer see it. One
// value may be both sides.
type Synchronized struct {
	Trainer, Explorer weights.Synchronizer
	InUse             func() int64 // returns the version that the sampler has; called while no call of either side is in flight
}

// SynchronizerOptions describe the synchronizer under test.
type SynchronizerOptions struct {
	Apart bool // trainer and explorer run in processes of their own: Publish returns at once
}

// Synchronizer tests the contract of weights.Synchronizer. open returns a synchronizer whose own
// deadline is timeout.
func Synchronizer(t *testing.T, o SynchronizerOptions, open func(t *testing.T, timeout time.Duration) Synchronized) {
	run := func(name string, timeout time.Duration, check func(*testing.T, Synchronized)) {
		t.Run(name, func(t *testing.T) { check(t, open(t, timeout)) })
	}
	run("wait returns what is in use", rescue, synchronizerWait)
	run("a version stays in use until the step has ended", rescue, func(t *testing.T, s Synchronized) { synchronizerKeeps(t, o, s) })
	run("a version is held", rescue, func(t *testing.T, s Synchronized) { synchronizerHolds(t, o, s) })
	run("the trainer ends", rescue, synchronizerTrainerEnds)
	run("the explorer ends", rescue, synchronizerExplorerEnds)
	run("cancelled", rescue, synchronizerCancelled)
	run("wait has a deadline", patience, func(t *testing.T, s Synchronized) {
		_, err := s.Explorer.Wait(t.Context(), 1, false)
		names(t, err, "trainer")
	})
	if !o.Apart {
		run("publish has a deadline", patience, func(t *testing.T, s Synchronized) { names(t, s.Trainer.Publish(t.Context(), 1), "explorer") })
	}
}

func names(t *testing.T, err error, who string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), who) || !strings.Contains(err.Error(), "sync_timeout") {
		t.Errorf("got %v; want an error that names the %s, who was waited for, and sync_timeout", err, who)
	}
}

// expect waits for a version ≥ minimum, and fails unless the sampler then has it and it is ≤
// newest.
func (s Synchronized) expect(t *testing.T, minimum, newest int64) {
	t.Helper()
	v, err := s.Explorer.Wait(t.Context(), minimum, false)
	if err != nil || v < minimum || v > newest || v != s.InUse() {
		t.Fatalf("Wait(%d) = %d, %v, with version %d in use; want one of %d to %d, in use", minimum, v, err, s.InUse(), minimum, newest)
	}
}

// publish runs Publish in a goroutine. The channel receives the result.
func (s Synchronized) publish(ctx context.Context, version int64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Trainer.Publish(ctx, version) }()
	return done
}

func synchronizerWait(t *testing.T, s Synchronized) {
	s.expect(t, 0, 0)
	for v := range int64(3) {
		done := s.publish(t.Context(), v+1)
		s.expect(t, v+1, v+1)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		s.expect(t, 1, v+1) // a version that is in use already
	}
}

func synchronizerKeeps(t *testing.T, o SynchronizerOptions, s Synchronized) {
	done := s.publish(t.Context(), 1)
	s.expect(t, 1, 1) // a step with version 1 begins
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errCause)
	defer cancel()
	err := s.Trainer.Publish(ctx, 2)
	if s.InUse() != 1 {
		t.Fatalf("version %d is in use in the middle of a step that began with 1", s.InUse())
	}
	if o.Apart && err != nil || !o.Apart && (!errors.Is(err, errCause) || !strings.Contains(err.Error(), "explorer")) {
		t.Errorf("Publish in the middle of a step: %v", err)
	}
	done = s.publish(t.Context(), 2)
	s.expect(t, 2, 2)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A version that is held stays in use, although a newer one is there and waited for.
func synchronizerHolds(t *testing.T, o SynchronizerOptions, s Synchronized) {
	s.expect(t, 0, 0)
	done := s.publish(t.Context(), 1)
	held := errors.New("held")
	named := func(err error) bool { // over a network the version may not have been seen when the time ended
		return o.Apart || strings.Contains(err.Error(), "evaluation")
	}
	err := s.Explorer.Held(t.Context(), func(version int64) error {
		ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errCause)
		defer cancel()
		_, err := s.Explorer.Wait(ctx, 1, false)
		if err == nil || !named(err) || !errors.Is(err, errCause) || s.InUse() != 0 {
			t.Errorf("Wait(1) while version %d is held: %v, with version %d in use; want an error that names the evaluation",
				version, err, s.InUse())
		}
		if v, err := s.Explorer.Wait(t.Context(), 0, true); err != nil || v != 0 || s.InUse() != 0 {
			t.Errorf("Wait for the newest while version %d is held = %d, %v, with version %d in use", version, v, err, s.InUse())
		}
		return held
	})
	if !errors.Is(err, held) {
		t.Errorf("Held: %v, want the error of what it calls", err)
	}
	s.expect(t, 1, 1)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func synchronizerTrainerEnds(t *testing.T, s Synchronized) {
	done := s.publish(t.Context(), 1)
	s.expect(t, 1, 1)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() {
		_, err := s.Explorer.Wait(t.Context(), 2, false)
		waited <- err
	}()
	s.Trainer.TrainerDone()
	if err := <-waited; !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("Wait for what is never published: %v, want ErrEnded", err)
	}
	s.expect(t, 1, 1)
}

func synchronizerExplorerEnds(t *testing.T, s Synchronized) {
	done := s.publish(t.Context(), 1)
	s.Explorer.ExplorerDone()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.Trainer.Publish(t.Context(), 2); err != nil {
		t.Errorf("Publish after the explorer's end: %v", err)
	}
}

func synchronizerCancelled(t *testing.T, s Synchronized) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	if _, err := s.Explorer.Wait(ctx, 1, false); !errors.Is(err, errCause) {
		t.Errorf("Wait: %v, want the context's cause", err)
	}
}
