//go:build unix

package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// patient is a buffer's spec that outlives a server's restart.
func patient(name string, capacity int) trinity.BufferSpec {
	return trinity.BufferSpec{Name: name, Capacity: capacity, Retries: 300, RetryInterval: 50 * time.Millisecond}
}

func TestServersAreBuffers(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *server.Server{"PostgreSQL": server.Postgres, "MariaDB": server.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			o := trinitytest.BufferOptions{Capacity: 10}
			trinitytest.Buffer(t, o, func(t *testing.T, dir string) trinitytest.Store {
				return trinitytest.StoreOf(openTest(t, s.URL, patient(dir, o.Capacity)))
			})
			t.Run("removed", func(t *testing.T) { removed(t, s.URL) })
			t.Run("longest name", func(t *testing.T) { longestName(t, s.URL) })
			t.Run("killed", func(t *testing.T) { killed(t, s) })
		})
	}
}

// longestName opens two buffers with names of the maximum length that differ at the end.
func longestName(t *testing.T, url string) {
	for i, last := range []string{"é", "è"} {
		b := openTest(t, url, patient(strings.Repeat("é", 249)+last, 10))
		put(t, b.Sink("explorer"), int64(i), 1)
		if got := take(t, b, 1); got[0].ID.Step != int64(i) {
			t.Errorf("took %v from the buffer whose name ends in %s", got[0].ID, last)
		}
	}
}

// killed kills the server again and again during puts and takes. Take returns each experience once,
// in order.
func killed(t *testing.T, s *server.Server) {
	const steps, each = 60, 24
	b := openTest(t, s.URL, patient(t.Name(), 3*each))
	sink := b.Sink("explorer")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	put, taken := make(chan error, 1), make(chan []string, 1)
	at := make(chan int64, steps)
	go func() {
		defer close(at)
		for step := range int64(steps) {
			d := trinity.Delivery{Groups: []trinity.Group{group(step, each)}, Cursor: fmt.Append(nil, step)}
			if err := sink.Put(ctx, d); err != nil {
				put <- err
				return
			}
			at <- step
		}
		put <- sink.Close(ctx)
	}()
	go func() {
		var ids []string
		for {
			exps, err := trinitytest.Take(ctx, b, 16, 0)
			for _, e := range exps {
				ids = append(ids, e.ID.String())
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				taken <- ids
				return
			}
		}
	}()
	rng := rand.New(rand.NewPCG(1, 2))
	for step := range at {
		if step%15 == 7 {
			time.Sleep(time.Duration(rng.IntN(4000)) * time.Microsecond) // into the next transaction
			s.Kill(t)
			s.Start(t)
		}
	}
	if err := <-put; err != nil {
		t.Fatal(err)
	}
	var want []string
	for step := range int64(steps) {
		for _, e := range group(step, each) {
			want = append(want, e.ID.String())
		}
	}
	if ids := <-taken; !slices.Equal(ids, want) {
		t.Errorf("%d experiences were taken, want each of %d once, in order", len(ids), len(want))
	}
}
