package buffer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// group makes n experiences of a step.
func group(step int64, n int) trinity.Group {
	g := make(trinity.Group, n)
	for i := range g {
		g[i] = &trinity.Experience{ID: trinity.ExperienceID{Step: step, Task: "t", Run: i}, Tokens: []int32{1, 2}, Mask: []bool{false, true}}
	}
	return g
}

func TestQueueIsABuffer(t *testing.T) {
	o := trinitytest.BufferOptions{Capacity: 10, CursorInside: true}
	trinitytest.Buffer(t, o, func(*testing.T, string) trinitytest.Store {
		q := NewQueue(o.Capacity)
		return trinitytest.Store{Explorer: q, Trainer: q}
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
