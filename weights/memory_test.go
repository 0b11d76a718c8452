package weights_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/weights"
)

func TestMemoryIsASynchronizer(t *testing.T) {
	trinitytest.Synchronizer(t, trinitytest.SynchronizerOptions{}, func(_ *testing.T, timeout time.Duration) trinitytest.Synchronized {
		e := &versions{}
		m := weights.NewMemory(e, 0, weights.AtRendezvous, timeout)
		return trinitytest.Synchronized{Trainer: m, Explorer: m, InUse: e.inUse.Load}
	})
}

// shares is an engine whose sampler reads the weights that it trains.
type shares struct{ versions }

func (*shares) SharesWeights() bool { return true }

// The trainer may change shared weights once the explorer waits for the next version and no evaluation holds the one in use.
func TestClaimWaitsForTheExplorer(t *testing.T) {
	claims := func(e weights.Offerer) (*weights.Memory, chan error) {
		m, claimed := weights.NewMemory(e, 0, weights.AtRendezvous, time.Minute), make(chan error, 1)
		return m, claimed
	}
	m, _ := claims(&versions{})
	if err := m.Claim(t.Context()); err != nil { // the weights are the engine's alone
		t.Fatal(err)
	}
	m, claimed := claims(&shares{})
	held, release := make(chan bool), make(chan bool)
	go m.Held(t.Context(), func(int64) error { close(held); <-release; return nil })
	<-held
	go func() { claimed <- m.Claim(t.Context()) }()
	got := make(chan error, 1)
	go func() {
		_, err := m.Wait(t.Context(), 1, false)
		got <- err
	}()
	select {
	case <-claimed:
		t.Fatal("the weights change under an evaluation")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if err := errors.Join(<-claimed, m.Publish(t.Context(), 1), <-got); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := m.Claim(ctx); err == nil {
		t.Error("the weights change while the explorer samples with them")
	}
	m.ExplorerDone()
	if err := m.Claim(t.Context()); err != nil {
		t.Error(err)
	}
}

// versions is an engine that has versions and nothing else.
type versions struct {
	engine.Trainer
	offered, inUse atomic.Int64
}

func (e *versions) Offer(_ context.Context, v int64) error { e.offered.Store(v); return nil }

func (e *versions) Adopt(context.Context) (int64, error) {
	e.inUse.Store(e.offered.Load())
	return e.inUse.Load(), nil
}

// A version that is published while another is held comes into use when that one is released, if the
// sampler takes versions at once, or else when the explorer asks.
func TestReleaseHandsOverTheNewest(t *testing.T) {
	for handover, want := range map[weights.Handover]int64{weights.WhenAsked: 0, weights.AtOnce: 2} {
		e := &versions{}
		m := weights.NewMemory(e, 0, handover, time.Minute)
		err := m.Held(t.Context(), func(int64) error {
			return m.Held(t.Context(), func(int64) error { return errors.Join(m.Publish(t.Context(), 1), m.Publish(t.Context(), 2)) })
		})
		if got := e.inUse.Load(); err != nil || got != want {
			t.Errorf("handover %d: version %d is in use, %v; want %d", handover, got, err, want)
		}
	}
}

// If Publish does not wait, the sampler gets a version when the explorer asks for the newest, or at
// once.
func TestHandoverWithoutARendezvous(t *testing.T) {
	for _, c := range []struct {
		handover                       weights.Handover
		published, waited, asked, need int64 // in use after Publish(2), Wait(0), Wait(0, newest), and Publish(3) and Wait(3)
	}{
		{weights.WhenAsked, 0, 0, 2, 3},
		{weights.AtOnce, 2, 2, 2, 3},
	} {
		e := &versions{}
		m := weights.NewMemory(e, 0, c.handover, time.Minute)
		var got [4]int64
		for _, v := range []int64{1, 2} {
			if err := m.Publish(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		got[0] = e.inUse.Load()
		wait := func(min int64, newest bool) int64 {
			v, err := m.Wait(t.Context(), min, newest)
			if err != nil || v != e.inUse.Load() {
				t.Errorf("Wait(%d, %v) = %d, %v; %d is in use", min, newest, v, err, e.inUse.Load())
			}
			return v
		}
		got[1], got[2] = wait(0, false), wait(0, true)
		if err := m.Publish(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		got[3] = wait(3, false)
		if want := [4]int64{c.published, c.waited, c.asked, c.need}; got != want {
			t.Errorf("handover %d: versions in use %v, want %v", c.handover, got, want)
		}
		m.TrainerDone()
		if _, err := m.Wait(t.Context(), 4, true); !errors.Is(err, trinity.ErrEnded) {
			t.Errorf("Wait for a version that is never published: %v", err)
		}
	}
}
