package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// In sync_style fixed a follower loads the oldest version ≥ the one that the step needs, otherwise
// the newest. When a trainer resumes with an older version, the follower replaces what it has.
func TestFollowerChoosesTheVersion(t *testing.T) {
	for style, want := range map[string][3]int64{fixed: {1, 2, 3}, "trainer_driven": {3, 3, 3}} {
		dir := t.TempDir()
		tr := train(t, dir, style, 0)
		p := at(tr)
		c := NewClient("left", style, time.Minute, p)
		if _, _, err := c.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, v := range []int64{1, 2, 3} {
			if err := tr.Publish(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		var loaded atomic.Int64
		f := follower(t, c, &loaded)
		var got [3]int64
		for i := range got {
			v, err := f.Wait(t.Context(), int64(i+1), style != fixed)
			if err != nil || v != loaded.Load() {
				t.Fatal(v, err)
			}
			got[i] = v
		}
		if got != want {
			t.Errorf("%s: took versions %v, want %v", style, got, want)
		}
		if style == fixed {
			continue
		}
		tr.Weights.Saved(2, true)
		tr.kill()
		back := train(t, dir, style, 2)
		p.is(back)
		if v, err := f.Wait(t.Context(), 0, true); err != nil || v != 2 || loaded.Load() != 2 {
			t.Errorf("after the trainer resumed with version 2: %d, %v", v, err)
		}
		if err := back.Publish(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		loaded.Store(0)
		if v, err := f.Wait(t.Context(), 0, true); err != nil || v != 3 || loaded.Load() != 3 {
			t.Errorf("version 3 after the resume: %d, %v, loaded %d", v, err, loaded.Load())
		}
	}
}

// A follower does not load files that differ from the published ones.
func TestDamagedWeights(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	if err := os.WriteFile(filepath.Join(tr.Dir, "weights_0", "model"), []byte("2"), 0o644); err != nil {
		t.Fatal(err)
	}
	var loaded atomic.Int64
	f := follower(t, client("left", at(tr), 2*time.Second), &loaded)
	loaded.Store(-1)
	_, err := f.Wait(t.Context(), 0, false)
	mention(t, err, "to publish version 0", "file model of version 0 arrived damaged", "sync_timeout")
	if loaded.Load() != -1 {
		t.Error("damaged weights were loaded")
	}
}

// Follow loads every version until the trainer ends.
func TestFollow(t *testing.T) {
	tr := train(t, t.TempDir(), "fully_async", 0)
	var loaded atomic.Int64
	f := follower(t, NewClient("left", "fully_async", time.Minute, at(tr)), &loaded)
	done := make(chan error)
	go func() { done <- f.Follow(t.Context()) }()
	for _, v := range []int64{1, 2} {
		if err := tr.Publish(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		for loaded.Load() != v {
			time.Sleep(time.Millisecond)
		}
	}
	publishing{Server: tr.Server}.TrainerDone()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := f.Wait(t.Context(), 3, false); !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("Wait for a version that is never published: %v", err)
	}
}

// While Wait waits for a version, Follow loads earlier versions for the steps in flight.
func TestFollowDuringWait(t *testing.T) {
	tr := train(t, t.TempDir(), "fully_async", 0)
	var loaded atomic.Int64
	f := follower(t, NewClient("left", "fully_async", time.Minute, at(tr)), &loaded)
	go func() { _ = f.Follow(t.Context()) }()
	waited := make(chan error)
	go func() {
		v, err := f.Wait(t.Context(), 2, true)
		if v != 2 {
			err = errors.Join(err, fmt.Errorf("version %d", v))
		}
		waited <- err
	}()
	for _, v := range []int64{1, 2} {
		time.Sleep(10 * time.Millisecond) // by now the wait has probably begun
		if err := tr.Publish(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		for loaded.Load() != v {
			time.Sleep(time.Millisecond)
		}
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
