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
		var inUse atomic.Int64
		m := NewMemory(0, timeout, func(_ context.Context, v int64) error { inUse.Store(v); return nil })
		return trinitytest.Synchronized{Trainer: m, Explorer: m, InUse: inUse.Load}
	})
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
	if v, err := explorer.Wait(t.Context(), 0); err != nil || v != 0 {
		t.Fatalf("Wait(0) = %d, %v", v, err)
	}
	for _, v := range []int64{1, 2, 3} {
		if err := trainer.Publish(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := explorer.Wait(t.Context(), 2); err != nil || v != 3 || len(loaded) != 1 {
		t.Fatalf("Wait(2) = %d, %v, loaded %v", v, err, loaded)
	}
	trainer.TrainerDone()
	if _, err := explorer.Wait(t.Context(), 4); !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("got %v, want ErrEnded", err)
	}
}
