package buffer

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
)

// group makes n experiences of a step.
func group(step int64, n int) trinity.Group {
	g := make(trinity.Group, n)
	for i := range g {
		g[i] = &trinity.Experience{ID: trinity.ExperienceID{Step: step, Task: "t", Run: i}, Tokens: []int32{1, 2}, Mask: []bool{false, true}}
	}
	return g
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	q := NewQueue(100)
	ctx := t.Context()
	for step := range int64(3) {
		if err := q.Put(ctx, trinity.Delivery{Groups: []trinity.Group{group(step, 2)}}); err != nil {
			t.Fatal(err)
		}
	}
	var order []int64
	for range 2 {
		exps, err := q.Take(ctx, 3, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range exps {
			order = append(order, e.ID.Step)
		}
	}
	want := []int64{0, 0, 1, 1, 2, 2}
	for i := range want {
		if order[i] != want[i] {
			t.Fatalf("took steps %v, want %v", order, want)
		}
	}
}

func TestQueuePutBlocksWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(2)
		put := func() error { return q.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(0, 2)}}) }
		if err := put(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- put() }()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("Put into a full queue returned")
		default:
		}
		if _, err := q.Take(t.Context(), 2, 0); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestQueueTakeNamesWhoItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := NewQueue(2).Take(ctx, 1, 0)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "explorer") {
			t.Errorf("got %v", err)
		}
	})
}

func TestQueueGivesAShortBatchOnlyWhenPausedBeyondThePublishedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(10)
		if err := q.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(1, 3)}}); err != nil {
			t.Fatal(err)
		}
		q.Pause(1)
		exps, err := q.Take(t.Context(), 5, 0) // the explorer waits for version 1, which is not there
		if err != nil || len(exps) != 3 {
			t.Fatalf("got %d experiences, %v; want the 3 that there are", len(exps), err)
		}
		got := make(chan int, 1)
		go func() {
			exps, _ := q.Take(t.Context(), 5, 1) // version 1 is published: the explorer is about to put more
			got <- len(exps)
		}()
		synctest.Wait()
		if err := q.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(2, 5)}}); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != 5 {
			t.Errorf("took %d, want 5", n)
		}
	})
}

func TestQueueEnds(t *testing.T) {
	q := NewQueue(10)
	if err := q.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(1, 3)}}); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if exps, err := q.Take(t.Context(), 5, 0); err != nil || len(exps) != 3 {
		t.Fatalf("got %d, %v: what was put must not be lost", len(exps), err)
	}
	if _, err := q.Take(t.Context(), 5, 0); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want io.EOF", err)
	}
	if err := q.Put(t.Context(), trinity.Delivery{}); !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("got %v, want ErrEnded", err)
	}
}

func TestQueueStateIsACut(t *testing.T) {
	q := NewQueue(10)
	if err := q.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(1, 3)}, Cursor: []byte(`{"step":1}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Take(t.Context(), 2, 0); err != nil {
		t.Fatal(err)
	}
	state, err := q.State()
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Pending) != 1 || state.Pending[0].ID.Run != 2 || string(state.Cursor) != `{"step":1}` {
		t.Fatalf("got %+v", state)
	}
	other := NewQueue(10)
	if err := other.Restore(state); err != nil {
		t.Fatal(err)
	}
	if exps, err := other.Take(t.Context(), 1, 0); err != nil || exps[0].ID.Run != 2 {
		t.Errorf("got %v, %v", exps, err)
	}
}
