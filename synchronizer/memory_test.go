package synchronizer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
)

func TestMemoryPublishesOnlyWhileTheExplorerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var published []int64
		m := NewMemory(0, time.Minute, func(_ context.Context, v int64) error { published = append(published, v); return nil })
		done := make(chan error, 1)
		go func() { done <- m.Publish(t.Context(), 1) }()
		synctest.Wait()
		if len(published) != 0 {
			t.Fatal("published while the explorer was sampling")
		}
		v, err := m.Wait(t.Context(), 1)
		if err != nil || v != 1 || len(published) != 1 {
			t.Fatalf("Wait = %d, %v after publishing %v", v, err, published)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestMemoryEnds(t *testing.T) {
	m := NewMemory(0, time.Minute, func(context.Context, int64) error { return nil })
	m.ExplorerDone()
	if err := m.Publish(t.Context(), 1); err != nil {
		t.Errorf("Publish after the explorer ended: %v", err)
	}
	m.TrainerDone()
	if _, err := m.Wait(t.Context(), 2); !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("got %v, want ErrEnded", err)
	}
	if v, err := m.Wait(t.Context(), 1); err != nil || v != 1 {
		t.Errorf("Wait for what is there = %d, %v", v, err)
	}
}

func TestMemoryDeadlineNamesTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(0, time.Second, func(context.Context, int64) error { return nil })
		if _, err := m.Wait(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "trainer") || !strings.Contains(err.Error(), "sync_timeout") {
			t.Errorf("Wait: %v", err)
		}
		m = NewMemory(0, time.Second, func(context.Context, int64) error { return nil })
		if err := m.Publish(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "explorer") {
			t.Errorf("Publish: %v", err)
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
