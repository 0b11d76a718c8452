package synchronizer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestMemoryIsASynchronizer(t *testing.T) {
	trinitytest.Synchronizer(t, trinitytest.SynchronizerOptions{}, func(_ *testing.T, timeout time.Duration) trinitytest.Synchronized {
		e := &weights{}
		m := NewMemory(e, 0, AtRendezvous, timeout)
		return trinitytest.Synchronized{Trainer: m, Explorer: m, InUse: e.inUse.Load}
	})
}

// weights is an engine that has versions and nothing else.
type weights struct {
	trinity.Engine
	offered, inUse atomic.Int64
}

func (e *weights) Offer(_ context.Context, v int64) error { e.offered.Store(v); return nil }

func (e *weights) Adopt(context.Context) (int64, error) {
	e.inUse.Store(e.offered.Load())
	return e.inUse.Load(), nil
}

// Where nobody waits for anybody, a version comes into use when the explorer asks for the newest, or at once.
func TestVersionsThatNobodyWaitsFor(t *testing.T) {
	for _, c := range []struct {
		handover                       Handover
		published, waited, asked, need int64 // in use after Publish(2), Wait(0), Wait(0, newest), and Publish(3) and Wait(3)
	}{
		{WhenAsked, 0, 0, 2, 3},
		{AtOnce, 2, 2, 2, 3},
	} {
		e := &weights{}
		m := NewMemory(e, 0, c.handover, time.Minute)
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
			t.Errorf("waiting for what never comes: %v", err)
		}
	}
}

func TestCheckpointIsASynchronizer(t *testing.T) {
	trinitytest.Synchronizer(t, trinitytest.SynchronizerOptions{Apart: true}, func(t *testing.T, timeout time.Duration) trinitytest.Synchronized {
		dir := t.TempDir()
		var inUse atomic.Int64
		write := func(context.Context, string) error { return nil }
		load := func(_ context.Context, _ string, v int64) error { inUse.Store(v); return nil }
		return trinitytest.Synchronized{
			Trainer:  &Checkpoint{Dir: dir, Timeout: timeout, Poll: time.Millisecond, Write: write},
			Explorer: &Checkpoint{Dir: dir, Timeout: timeout, Poll: time.Millisecond, Load: load},
			InUse:    inUse.Load,
		}
	})
}

func TestCheckpointAcrossProcesses(t *testing.T) {
	dir := t.TempDir()
	trainer := &Checkpoint{Dir: dir, Timeout: time.Minute, Poll: time.Millisecond, Write: func(_ context.Context, dir string) error { return nil }}
	var loaded []int64
	explorer := &Checkpoint{Dir: dir, Timeout: time.Minute, Poll: time.Millisecond, Load: func(_ context.Context, _ string, v int64) error { loaded = append(loaded, v); return nil }}
	if v, err := explorer.Wait(t.Context(), 0, false); err != nil || v != 0 {
		t.Fatalf("Wait(0) = %d, %v", v, err)
	}
	for _, v := range []int64{1, 2, 3} {
		if err := trainer.Publish(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := explorer.Wait(t.Context(), 2, false); err != nil || v != 3 || len(loaded) != 1 {
		t.Fatalf("Wait(2) = %d, %v, loaded %v", v, err, loaded)
	}
	if err := trainer.Publish(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if v, err := explorer.Wait(t.Context(), 2, false); err != nil || v != 3 {
		t.Errorf("Wait(2) = %d, %v; want 3, which is in use", v, err)
	}
	if v, err := explorer.Wait(t.Context(), 2, true); err != nil || v != 4 {
		t.Errorf("the newest = %d, %v; want 4", v, err)
	}
	trainer.TrainerDone()
	if _, err := explorer.Wait(t.Context(), 5, false); !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("got %v, want ErrEnded", err)
	}
}
