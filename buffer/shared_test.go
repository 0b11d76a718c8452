//go:build unix

package buffer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/database"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// onServers runs a test on a buffer of each kind that processes share; open is another process of it.
func onServers(t *testing.T, test func(t *testing.T, open func() trinity.Buffer)) {
	t.Run("SQLite", func(t *testing.T) {
		url := fileURL(t.TempDir())
		test(t, func() trinity.Buffer { return openTest(t, url, trinity.BufferSpec{Capacity: 10}) })
	})
	t.Run("Redis", func(t *testing.T) {
		on := server.Redis(t)
		test(t, func() trinity.Buffer { return openRedis(t, on, trinity.BufferSpec{Name: "x", Capacity: 10}) })
	})
}

// A process that is the trainer no more removes nothing, and ends nothing. Nor is one the trainer whose checkpoint is too old.
func TestADeadTrainerDoesNoHarm(t *testing.T) {
	onServers(t, func(t *testing.T, open func() trinity.Buffer) {
		old, young, sink := open(), open(), open().Sink("explorer")
		put(t, sink, 1, 4)
		put(t, sink, 2, 4)
		take(t, old, 4)
		if err := young.Restore(trinity.SourceState{}); err != nil {
			t.Fatal(err)
		}
		refused(t, old.Trim(state(t, old)), "another process has become its trainer")
		if err := old.Close(); err != nil {
			t.Error(err)
		}
		take(t, young, 5)
		put(t, sink, 3, 1)
		if err := young.Trim(state(t, young)); err != nil {
			t.Fatal(err)
		}
		refused(t, open().Restore(trinity.SourceState{}), "checkpoints were written later")
		take(t, young, 4)

		if err := young.Close(); err != nil {
			t.Fatal(err)
		}
		if err := sink.Put(t.Context(), trinity.Delivery{}); !errors.Is(err, trinity.ErrEnded) {
			t.Errorf("Put once the trainer has closed: %v", err)
		}
	})
}

// Experiences that somebody has removed before they were taken are not passed over: those between others, and the last ones.
func TestRemovedExperiencesAreMissed(t *testing.T) {
	onServers(t, func(t *testing.T, open func() trinity.Buffer) {
		b := open()
		sink := b.Sink("explorer")
		put(t, sink, 1, 6)
		take(t, b, 1)
		remove := func(number int) {
			t.Helper()
			var err error
			switch b := b.(type) {
			case *SQL:
				err = b.db.Update(t.Context(), func(tx database.Tx) (bool, error) {
					_, err := tx.Exec(t.Context(), "DELETE FROM trinity_experiences WHERE number = ?", number)
					return true, err
				})
			case *Redis:
				err = b.redis.client.XDel(t.Context(), b.redis.keys[1], fmt.Sprint(number, "-0")).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		missed := func(n int, words string) {
			t.Helper()
			again := open()
			if err := again.Restore(state(t, b)); err != nil {
				t.Fatal(err)
			}
			_, err := again.Take(t.Context(), n, 0)
			refused(t, err, "buffer ", words, "were they removed?")
		}
		remove(6)
		missed(5, "the experiences 6 to 6 are missing")
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		missed(9, "the experiences 6 to 6 are missing")
		remove(2)
		remove(3)
		missed(1, "the experiences 2 to 3 are missing")
	})
}

// After a Put that was given up, of which nobody knows whether it was done, the next one is put in any case.
func TestPutAfterOneThatWasGivenUp(t *testing.T) {
	onServers(t, func(t *testing.T, open func() trinity.Buffer) {
		b := open()
		s := b.Sink("explorer")
		put(t, s, 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Put(ctx, trinity.Delivery{}); err == nil {
			t.Error("Put with a context that is over: no error")
		}
		switch s := s.(type) { // it was done, though
		case *sqlSink:
			s.delivery--
		case *redisSink:
			s.delivery--
		}
		put(t, s, 2, 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		take(t, b, 2)
		if _, err := b.Take(t.Context(), 1, 0); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}

// overtaken has an explorer do its last thing when the trainer has read all that there was, and is about to ask who puts anything yet.
type overtaken struct {
	sharedServer
	last func()
}

func (b *overtaken) status(ctx context.Context) (sharedStatus, error) {
	if b.last != nil {
		b.last()
		b.last = nil
	}
	return b.sharedServer.status(ctx)
}

// What an explorer puts right before it closes is in the trainer's last batch, whenever that looks.
func TestTheLastDeliveryIsNotOverlooked(t *testing.T) {
	onServers(t, func(t *testing.T, open func() trinity.Buffer) {
		b, sink := open(), open().Sink("explorer")
		put(t, sink, 1, 1)
		last := func() {
			put(t, sink, 2, 2)
			if err := sink.Close(); err != nil {
				t.Fatal(err)
			}
		}
		switch b := b.(type) {
		case *SQL:
			b.server = &overtaken{b.server, last}
		case *Redis:
			b.server = &overtaken{b.server, last}
		}
		take(t, b, 3)
	})
}

// Trim removes what was taken, all of it and nothing else.
func TestTrimRemovesWhatWasTaken(t *testing.T) {
	onServers(t, func(t *testing.T, open func() trinity.Buffer) {
		b := open()
		put(t, b.Sink("explorer"), 1, 5)
		take(t, b, 3)
		if err := b.Trim(state(t, b)); err != nil {
			t.Fatal(err)
		}
		var kept []int64
		switch b := b.(type) {
		case *SQL:
			err := b.db.Each(t.Context(), "SELECT number FROM trinity_experiences WHERE experience IS NOT NULL ORDER BY number", nil, func() { kept = nil }, func(rows *sql.Rows) error {
				var number int64
				err := rows.Scan(&number)
				kept = append(kept, number)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		case *Redis:
			entries, err := b.redis.client.XRange(t.Context(), b.redis.keys[1], "-", "+").Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				number, _, _ := strings.Cut(e.ID, "-")
				n, _ := strconv.ParseInt(number, 10, 64)
				kept = append(kept, n)
			}
		}
		if !slices.Equal(kept, []int64{4, 5}) {
			t.Errorf("kept experiences %d of 5 after 3 were taken", kept)
		}
	})
}

// What a checkpoint has lies before its place: to take it changes neither what was taken of the server nor how many rollouts that were.
func TestWhatACheckpointHasIsNotCountedAgain(t *testing.T) {
	onServers(t, func(t *testing.T, open func() trinity.Buffer) {
		first := open()
		put(t, first.Sink("explorer"), 1, 3)
		exps, saved := take(t, first, 3), state(t, first)
		saved.Pending = exps[2:]
		second := open()
		if err := second.Restore(saved); err != nil {
			t.Fatal(err)
		}
		take(t, second, 1)
		if got, want := string(state(t, second).Cursor), string(saved.Cursor); got != want {
			t.Errorf("the place is %s, want %s", got, want)
		}
	})
}
