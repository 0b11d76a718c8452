//go:build unix

package buffer

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/database"
)

// copied makes a copy of what a server has, and says how to bring it back: what came later is lost then, as in a power cut of a server that flushes each second.
func copied(t *testing.T, b trinity.Buffer) (restore func()) {
	t.Helper()
	switch b := b.(type) {
	case *SQL:
		each := func(statements string) {
			t.Helper()
			err := b.db.Update(t.Context(), func(tx database.Tx) (bool, error) {
				for _, table := range []string{"trinity_buffers", "trinity_explorers", "trinity_experiences"} {
					for s := range strings.SplitSeq(statements, ";") {
						if _, err := tx.Exec(t.Context(), strings.ReplaceAll(s, "{}", table)); err != nil {
							return false, err
						}
					}
				}
				return true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		each("CREATE TABLE copy_of_{} AS SELECT * FROM {}")
		return func() { t.Helper(); each("DELETE FROM {}; INSERT INTO {} SELECT * FROM copy_of_{}") }
	case *Redis:
		client, copies := b.redis.client, map[string]string{}
		for _, key := range b.redis.keys {
			var err error
			if copies[key], err = client.Dump(t.Context(), key).Result(); err != nil {
				t.Fatal(err)
			}
		}
		return func() {
			t.Helper()
			for key, copied := range copies {
				if err := client.RestoreReplace(t.Context(), key, 0, copied).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return nil
}

// An explorer whose last delivery the server has lost, after it had acknowledged it, puts nothing behind the gap.
func TestALostDeliveryIsMissed(t *testing.T) {
	delivery := func(step int64) trinity.Delivery { return trinity.Delivery{Groups: []trinity.Group{group(step, 1)}} }
	for name, c := range map[string]struct {
		after func(t *testing.T, s trinity.Sink) // the copy
		next  func(ctx context.Context, s trinity.Sink) error
	}{
		"the next one":      {func(t *testing.T, s trinity.Sink) { put(t, s, 2, 1) }, func(ctx context.Context, s trinity.Sink) error { return s.Put(ctx, delivery(3)) }},
		"of several":        {func(t *testing.T, s trinity.Sink) { put(t, s, 2, 1); put(t, s, 3, 1) }, func(ctx context.Context, s trinity.Sink) error { return s.Put(ctx, delivery(4)) }},
		"a cursor, no more": {func(t *testing.T, s trinity.Sink) { put(t, s, 2, 0) }, func(ctx context.Context, s trinity.Sink) error { return s.Put(ctx, trinity.Delivery{}) }},
		"before one that was given up": {func(t *testing.T, s trinity.Sink) {
			put(t, s, 2, 1)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Put(ctx, delivery(3)); err == nil {
				t.Error("Put with a context that is over: no error")
			}
		}, func(ctx context.Context, s trinity.Sink) error { return s.Put(ctx, delivery(3)) }},
		"with who the explorer is": {func(t *testing.T, s trinity.Sink) {
			if _, err := s.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			put(t, s, 2, 1)
		}, func(ctx context.Context, s trinity.Sink) error { return s.Put(ctx, delivery(3)) }},
		"the last one": {func(t *testing.T, s trinity.Sink) { put(t, s, 2, 1) }, func(_ context.Context, s trinity.Sink) error { return s.Close() }},
		"a pause":      {func(t *testing.T, s trinity.Sink) { put(t, s, 2, 1) }, func(ctx context.Context, s trinity.Sink) error { return s.Pause(ctx, 9) }},
	} {
		t.Run(name, func(t *testing.T) {
			onServers(t, func(t *testing.T, open func() trinity.Buffer) {
				b := open()
				sink := b.Sink("explorer")
				put(t, sink, 1, 1)
				restore := copied(t, b)
				c.after(t, sink)
				restore()
				for range 2 { // it stays so
					refused(t, c.next(t.Context(), sink), "buffer ", "explorer explorer", "the server has lost it", "start trainer and explorers again")
				}
				take(t, b, 1)
			})
		})
	}
}

// A trainer that has read what the server has no more is told so; from a checkpoint before that it goes on, and so does an explorer that joins anew.
func TestATrainerThatHasReadMore(t *testing.T) {
	onServers(t, func(t *testing.T, open func() trinity.Buffer) {
		b, sink := open(), open().Sink("explorer")
		put(t, sink, 1, 1)
		take(t, b, 1)
		early, restore := state(t, b), copied(t, b)
		put(t, sink, 2, 1)
		put(t, sink, 3, 1)
		take(t, b, 1)
		late := state(t, b)
		restore()
		take(t, b, 1) // which it has read before
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := b.Take(soon, 1, 0)
		refused(t, err, "buffer ", "it has 1 experiences, and 3 were read", "start trainer and explorers again")
		refused(t, b.Restore(late), "was it removed?")

		if err := b.Restore(early); err != nil {
			t.Fatal(err)
		}
		anew := open().Sink("explorer")
		if cursor, err := anew.Resume(t.Context()); err != nil || string(cursor) != "1" {
			t.Fatalf("the explorer goes on from %s, %v", cursor, err)
		}
		put(t, anew, 4, 1)
		if got := take(t, b, 1); got[0].ID.Step != 4 {
			t.Errorf("took %v, want step 4", got[0].ID)
		}
	})
}
