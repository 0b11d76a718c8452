package fleet

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// In sync_style fixed an explorer takes the oldest version that there is from the one that it needs, however late it comes; otherwise the newest. What was
// in use when a trainer was thrown back is replaced by what the trainer has.
func TestWhichVersionIsTaken(t *testing.T) {
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
		tr.Saved(2, true)
		tr.kill()
		back := train(t, dir, style, 2)
		p.is(back)
		if v, err := f.Wait(t.Context(), 0, true); err != nil || v != 2 || loaded.Load() != 2 {
			t.Errorf("of a trainer that was thrown back to version 2: %d, %v", v, err)
		}
		if err := back.Publish(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		loaded.Store(0)
		if v, err := f.Wait(t.Context(), 0, true); err != nil || v != 3 || loaded.Load() != 3 {
			t.Errorf("version 3 of another history: %d, %v, loaded %d", v, err, loaded.Load())
		}
	}
}

// Weights that are not what was published are never sampled with.
func TestDamagedWeights(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	if err := os.WriteFile(filepath.Join(tr.path(0), "model"), []byte("2"), 0o644); err != nil {
		t.Fatal(err)
	}
	var loaded atomic.Int64
	f := follower(t, client("left", at(tr), 2*time.Second), &loaded)
	loaded.Store(-1)
	_, err := f.Wait(t.Context(), 0, false)
	mention(t, err, "to publish version 0", "model of version 0 did not arrive as it was published", "sync_timeout")
	if loaded.Load() != -1 {
		t.Error("damaged weights were loaded")
	}
}

// Follow takes what comes, until the trainer ends.
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
		t.Errorf("waiting for what never comes: %v", err)
	}
}

// An explorer that waits for a version, to begin a step with, samples meanwhile with those before it: other steps are under way.
func TestFollowWhileAStepWaits(t *testing.T) {
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
		time.Sleep(10 * time.Millisecond) // so that the wait is likely to have begun
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

// What a checkpoint, an explorer in fixed, or a download that has begun needs stays; the rest goes.
func TestShelf(t *testing.T) {
	for _, c := range []struct {
		pinned []int64
		floor  int64
		want   string
		end    string // of the run, where checkpoints have all versions but 4 themselves
	}{
		{[]int64{0}, math.MaxInt64, "0 5 6", ""},
		{[]int64{3}, math.MaxInt64, "0 1 2 3 5 6", "0 1 2"}, // the checkpoint before may need 0, 1 or 2
		{[]int64{2, 4}, math.MaxInt64, "2 4 5 6", "4"},
		{[]int64{2, 4}, 3, "2 3 4 5 6", "4"},
		{[]int64{2, 4}, -1, "0 1 2 3 4 5 6", "4"},
	} {
		s := shelf{dir: t.TempDir()}
		for v := range int64(7) {
			if err := errors.Join(os.Mkdir(s.path(v), 0o755), durable.Seal(s.path(v))); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.open(pin{version: 6}); err != nil {
			t.Fatal(err)
		}
		s.pinned = nil
		for _, v := range c.pinned {
			s.pinned = append(s.pinned, pin{version: v, again: v != 4})
		}
		if err := s.tidy(c.floor); err != nil {
			t.Fatal(err)
		}
		if got := s.onDisk(t); got != c.want || len(s.versions) != len(strings.Fields(got)) {
			t.Errorf("pinned %v, floor %d: left %s, want %s", c.pinned, c.floor, got, c.want)
		}
		if err := s.clear(); err != nil {
			t.Fatal(err)
		}
		if got := s.onDisk(t); got != c.end {
			t.Errorf("pinned %v: left %q at the end, want %q", c.pinned, got, c.end)
		}
		s = shelf{dir: s.dir}
		if err := s.open(pin{version: 2}); err != nil || slices.ContainsFunc(s.versions, func(w weights) bool { return w.Version > 2 }) {
			t.Errorf("opened at version 2: %v, %v", s.versions, err)
		}
	}
}

// onDisk are the versions that are there.
func (s *shelf) onDisk(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.dir, weightsPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		names[i] = strings.TrimPrefix(filepath.Base(name), weightsPrefix)
	}
	return strings.Join(names, " ")
}

// Weights that were damaged since they were published are not served; of those that a kill has undone nobody asks.
func TestWeightsAreDamaged(t *testing.T) {
	s := shelf{dir: t.TempDir()}
	for v := range int64(2) {
		file := filepath.Join(s.path(v), "model.safetensors")
		if err := errors.Join(os.Mkdir(s.path(v), 0o755), os.WriteFile(file, []byte("weights"), 0o644), durable.Seal(s.path(v)), os.WriteFile(file, []byte("Weights"), 0o644)); err != nil {
			t.Fatal(err)
		}
		err := (&shelf{dir: s.dir}).open(pin{})
		if err == nil || !strings.Contains(err.Error(), filepath.Join(s.path(0), "model.safetensors")+" is damaged") {
			t.Errorf("%v", err)
		}
	}
}
