//go:build unix

package buffer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// openRedis opens a buffer of a server until the test ends.
func openRedis(t *testing.T, on *server.Server, s trinity.BufferSpec) *Redis {
	t.Helper()
	s.Path, s.Retries, s.RetryInterval = on.URL, 1000, 10*time.Millisecond
	b, err := OpenRedis(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestRedisIsABuffer(t *testing.T) {
	on := server.Redis(t)
	o := trinitytest.BufferOptions{Capacity: 10}
	for name, byRollout := range map[string]bool{"by experience": false, "by rollout": true} {
		t.Run(name, func(t *testing.T) {
			trinitytest.Buffer(t, o, func(t *testing.T, dir string) trinitytest.Store {
				return trinitytest.StoreOf(openRedis(t, on, trinity.BufferSpec{Name: dir, Capacity: o.Capacity, ByRollout: byRollout}))
			})
		})
	}
	t.Run("each side in a process of its own", func(t *testing.T) {
		trinitytest.Buffer(t, o, func(t *testing.T, dir string) trinitytest.Store {
			spec := trinity.BufferSpec{Name: dir, Capacity: o.Capacity}
			return trinitytest.Store{Explorer: openRedis(t, on, spec).Sink("explorer"), Second: openRedis(t, on, spec).Sink("second"), Trainer: openRedis(t, on, spec)}
		})
	})
}

// A server that is killed again and again, and a trainer that is, lose nothing and give nothing twice in the history that remains.
func TestRedisIsKilled(t *testing.T) {
	on := server.Redis(t)
	const deliveries, size = 60, 5
	spec := trinity.BufferSpec{Name: "kill", Capacity: 40}
	explorer := openRedis(t, on, spec).Sink("explorer")
	put := make(chan error, 1)
	go func() {
		for step := range int64(deliveries) {
			d := trinity.Delivery{Groups: []trinity.Group{group(step, size)}, Cursor: fmt.Appendf(nil, "%d", step)}
			if err := explorer.Put(context.Background(), d); err != nil {
				put <- err
				return
			}
		}
		put <- explorer.Close()
	}()
	killed := make(chan int)
	stop := make(chan struct{})
	go func() {
		rng, n := rand.New(rand.NewPCG(1, 2)), 0
		for ; ; n++ {
			select {
			case <-stop:
				killed <- n
				return
			case <-time.After(time.Duration(20+rng.IntN(60)) * time.Millisecond):
				on.Kill(t)
				on.Start(t)
			}
		}
	}()

	var taken []string
	trainer := openRedis(t, on, spec)
	rng := rand.New(rand.NewPCG(3, 4))
	var saved trinity.SourceState
	history := 0 // of taken, at the checkpoint
	for len(taken) < deliveries*size {
		if rng.IntN(4) == 0 {
			trainer = openRedis(t, on, spec)
			if err := trainer.Restore(saved); err != nil {
				t.Fatal(err)
			}
			taken = taken[:history]
		}
		exps, err := trainer.Take(t.Context(), 1+rng.IntN(7), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range exps {
			taken = append(taken, e.ID.String())
		}
		if rng.IntN(2) == 0 {
			if saved, err = trainer.State(); err != nil {
				t.Fatal(err)
			}
			history = len(taken)
			if err := trainer.Trim(saved); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	if n := <-killed; n < 3 {
		t.Errorf("the server was killed %d times only", n)
	}
	if err := <-put; err != nil {
		t.Error(err)
	}
	var want []string
	for step := range int64(deliveries) {
		for _, e := range group(step, size) {
			want = append(want, e.ID.String())
		}
	}
	if !slices.Equal(taken, want) {
		t.Errorf("took %v, want each of the %d once and in order", taken, len(want))
	}
}

func TestARedisThatIsRefused(t *testing.T) {
	for _, c := range []struct{ args, want, user string }{
		{"--appendonly no", "set its appendonly to yes", ""},
		{"--maxmemory 100mb --maxmemory-policy allkeys-lru", "set that to noeviction", ""},
		{"--requirepass secret", "Authentication required.; look at user and password", ""},
		{"--requirepass secret", "disabled.; look at user and password in the URL that path has; the environment may keep them: user:${oc.env:DB_PASSWORD}@host", ":s3cret@"},
	} {
		redis := server.Redis(t, strings.Fields(c.args)...)
		spec := trinity.BufferSpec{Name: "x", Path: strings.Replace(redis.URL, "//", "//"+c.user, 1), Retries: 500, RetryInterval: 10 * time.Millisecond}
		if _, err := OpenRedis(t.Context(), spec); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %q", c.args, err, c.want)
		}
	}
	for _, path := range []string{"http://u:secret@h", "redis://u:secret@h:x/0", "redis://u:secret@127.0.0.1:1/0"} {
		if _, err := OpenRedis(t.Context(), trinity.BufferSpec{Path: path}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want an error without the password", path, err)
		}
	}
}

// A server that has lost the buffer, a second trainer and a second explorer of one name are told.
func TestRedisTellsWhatCannotBe(t *testing.T) {
	on := server.Redis(t)
	spec := trinity.BufferSpec{Name: filepath.Base(t.Name()), Capacity: 10}
	b, other := openRedis(t, on, spec), openRedis(t, on, spec)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	d := trinity.Delivery{Groups: []trinity.Group{group(1, 4)}, Cursor: []byte("1")}
	must(b.Sink("explorer").Put(t.Context(), d))
	_, err := b.Take(t.Context(), 1, 0)
	must(err)
	early, err := b.State()
	must(err)
	_, err = other.Take(t.Context(), 2, 0)
	must(err)
	_, err = b.Take(t.Context(), 1, 0)
	refused("another process has become its trainer", err)

	sink := b.Sink("explorer")
	must(sink.Put(t.Context(), trinity.Delivery{}))
	must(other.Sink("explorer").Put(t.Context(), d))
	refused("another process has become explorer explorer", sink.Put(t.Context(), d))

	late, err := other.State()
	must(err)
	must(other.Trim(late))
	refused("has it no more", b.Restore(early))
	refused("does not have experience 99", b.Restore(trinity.SourceState{Cursor: []byte(`{"taken": 99}`)}))

	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("enough"))
	defer cancel()
	_, err = other.Take(ctx, 50, 0)
	refused("which holds 6 rollouts (explorer may put more): enough", err)

	client := redis.NewClient(&redis.Options{Addr: on.Address(), DB: 3})
	defer client.Close()
	must(client.FlushAll(t.Context()).Err())
	_, err = other.Take(t.Context(), 1, 0)
	refused("not there any more", err)
}
