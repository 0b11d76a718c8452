package buffer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/database"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Buffers.Register("sql", "A first-in, first-out buffer in a database, which explorers and the trainer reach from processes of their own: SQLite in a file (path sqlite:///relative.db or "+
		"sqlite:////absolute.db), PostgreSQL (postgresql://user@host/name) or MySQL and MariaDB (mysql://user@host/name). People read its table trinity_experiences.",
		func() trinity.BufferOpener { return &sqlOpener{} })
}

type sqlOpener struct{}

// OpenBuffer implements trinity.BufferOpener.
func (*sqlOpener) OpenBuffer(ctx context.Context, s trinity.BufferSpec) (trinity.Buffer, error) {
	address, err := database.Parse(s.Path)
	if err != nil {
		return nil, err
	}
	return OpenSQL(ctx, address, s)
}

// SQL is a first-in, first-out buffer in a database. A delivery is one transaction, with the state of its explorer, and what was committed is on the server's
// disk. Transactions that put follow one another, so that experiences are numbered in the order in which they can be seen, and the trainer goes on from a
// number. Of several processes that want to be the trainer, or one explorer, the last one is it: the others' next access is an error.
type SQL struct {
	Reading
	putTimeout time.Duration
	capacity   int64 // rollouts, from which on Put waits
	name       string
	db         *database.DB

	mu     sync.Mutex // guards what follows: the trainer's side
	window            // what was read and not taken; a position is the number and the rollout's number
	loaded int64      // number of the experience that was read last
	next   sqlCursor
	claim  string // what the trainer is known by in the database; "" before it has said that it is it

	ended chan struct{} // closed by Close
	close func() error
}

// sqlCursor is where a trainer reads on.
type sqlCursor struct {
	Taken    int64 `json:"taken"`    // number of the experience that was taken last
	Rollouts int64 `json:"rollouts"` // and of its rollout
}

// OpenSQL makes the tables of a buffer where there are none, and opens it.
func OpenSQL(ctx context.Context, a database.Address, s trinity.BufferSpec) (*SQL, error) {
	db, err := database.Open(ctx, a, database.Options{Retries: s.Retries, Interval: s.RetryInterval})
	if err != nil {
		return nil, err
	}
	b := &SQL{
		Reading: Reading{ByRollout: s.ByRollout, TakeTimeout: s.TakeTimeout}, putTimeout: s.PutTimeout,
		capacity: int64(s.Capacity), name: s.Name, db: db, ended: make(chan struct{}),
	}
	b.close = sync.OnceValue(b.end)
	err = db.Migrate(ctx, "buffer", sqlSchema)
	if err == nil {
		err = db.Update(ctx, func(t database.Tx) (bool, error) { return true, t.Insert(ctx, "trinity_buffers", "name", s.Name) })
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return b, nil
}

// Take implements trinity.Source.
func (b *SQL) Take(ctx context.Context, n int, published int64) ([]*trinity.Experience, error) {
	ctx, cancel := withTimeout(ctx, b.TakeTimeout, "buffer.trainer_input.experience_buffer.max_read_timeout")
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claim == "" {
		if err := b.restore(ctx, sqlCursor{}); err != nil {
			return nil, b.failed(err)
		}
	}
	var end int
	var over bool
	waiting := fmt.Sprintf("the explorer to put %d %s into the experience buffer", n, b.unit())
	err := b.await(ctx, waiting, func() (bool, error) {
		var whole bool
		if err := b.fetch(ctx, n); err != nil {
			return false, err
		}
		if end, whole = b.window.end(n, b.ByRollout, published); whole || end < len(b.pending) {
			return true, nil
		}
		s, err := b.status(ctx)
		if err != nil {
			return false, err
		}
		if err := b.fetch(ctx, n); err != nil { // again: who puts nothing more has put all that there is now
			return false, err
		}
		end, whole = b.window.end(n, b.ByRollout, published)
		over = b.isClosed() || s.closed()
		return whole || end < len(b.pending) || s.barred(published) || over, nil
	})
	if err != nil {
		return nil, b.failed(err)
	}
	if over && len(b.pending) == 0 {
		return nil, io.EOF
	}
	if end == 0 {
		return nil, nil
	}
	at := b.pending[end-1].after
	if err := b.took(ctx, at.Record, int64(at.Index)); err != nil {
		return nil, b.failed(err)
	}
	out, _ := b.take(end)
	b.next = sqlCursor{at.Record, int64(at.Index)}
	return out, nil
}

// await blocks until ready holds; its error says who was waited for and what the buffer holds.
func (b *SQL) await(ctx context.Context, what string, ready func() (bool, error)) error {
	for n := 0; ; n++ {
		changed := b.db.Changed()
		ok, err := ready()
		if ctx.Err() != nil && !ok {
			return fmt.Errorf("waiting for %s, which holds %s: %w", what, b.holds(ctx), context.Cause(ctx))
		}
		if err != nil || ok {
			return err
		}
		select {
		case <-changed:
		case <-b.db.Look(n):
		case <-b.ended:
		case <-ctx.Done():
		}
	}
}

// holds says what is in the buffer once a wait is over.
func (b *SQL) holds(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	s, err := b.status(ctx)
	if err != nil {
		return fmt.Sprintf("what is not known (%v)", err)
	}
	return s.String()
}

func (b *SQL) failed(err error) error { return fmt.Errorf("experience buffer: %w", err) }

var errTrainer = errors.New("another process has become its trainer: there can be one only")

// took says in the database what was taken, for those who wait for room, and for people.
func (b *SQL) took(ctx context.Context, number, rollout int64) error {
	return b.own(ctx, "taken = ?, taken_rollouts = ?", number, rollout)
}

// own changes the buffer's row, as its trainer. A checkpoint has what is to last.
func (b *SQL) own(ctx context.Context, set string, values ...any) error {
	found := int64(0)
	err := b.db.Note(ctx, func(t database.Tx) (bool, error) {
		var err error
		found, err = t.Exec(ctx, "UPDATE trinity_buffers SET "+set+" WHERE name = ? AND trainer = ?", append(values, b.name, b.claim)...)
		return true, err
	})
	if err == nil && found == 0 {
		err = fmt.Errorf("%s: %w", b.db, errTrainer)
	}
	return err
}

// State implements trinity.Source.
func (b *SQL) State() (trinity.SourceState, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cursor, err := json.Marshal(b.next)
	return trinity.SourceState{Cursor: cursor}, err
}

// Restore implements trinity.Source. The zero state is the buffer's beginning.
func (b *SQL) Restore(s trinity.SourceState) error {
	var at sqlCursor
	if len(s.Cursor) > 0 {
		if err := readState(s.Cursor, &at); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.restore(context.Background(), at); err != nil {
		return b.failed(err)
	}
	return nil
}

// restore makes this process the trainer, which goes on behind a place.
func (b *SQL) restore(ctx context.Context, at sqlCursor) error {
	claim := rand.Text()
	var put, trimmed int64
	err := b.db.Update(ctx, func(t database.Tx) (bool, error) {
		if err := t.Row(ctx, "SELECT put, trimmed FROM trinity_buffers WHERE name = ?", []any{b.name}, &put, &trimmed); err != nil {
			return false, err
		}
		if at.Taken < trimmed || at.Taken > put {
			return false, nil
		}
		_, err := t.Exec(ctx, "UPDATE trinity_buffers SET trainer = ?, closed = 0, taken = ?, taken_rollouts = ? WHERE name = ?", claim, at.Taken, at.Rollouts, b.name)
		return true, err
	})
	switch {
	case err != nil:
		return err
	case at.Taken > put:
		return fmt.Errorf("%s: buffer %s has %d experiences, and the checkpoint goes on after experience %d: was it removed?", b.db, b.name, put, at.Taken)
	case at.Taken < trimmed:
		return fmt.Errorf("%s: buffer %s is to be read from experience %d on, and keeps none before %d, because checkpoints were written later: set another name, or go on from one of them",
			b.db, b.name, at.Taken+1, trimmed+1)
	}
	b.window, b.next, b.loaded, b.claim = window{}, at, at.Taken, claim
	return nil
}

// Trim implements trinity.Buffer: rows keep what people read.
func (b *SQL) Trim(s trinity.SourceState) error {
	var at sqlCursor
	if err := readState(s.Cursor, &at); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx := context.Background()
	err := b.db.Update(ctx, func(t database.Tx) (bool, error) {
		var trimmed int64
		if err := t.Row(ctx, "SELECT trimmed FROM trinity_buffers WHERE name = ?", []any{b.name}, &trimmed); err != nil || trimmed >= at.Taken {
			return false, err
		}
		const rows = "UPDATE trinity_experiences SET experience = NULL WHERE buffer = ? AND number > ? AND number <= ?"
		if _, err := t.Exec(ctx, rows, b.name, trimmed, at.Taken); err != nil {
			return false, err
		}
		_, err := t.Exec(ctx, "UPDATE trinity_buffers SET trimmed = ? WHERE name = ?", at.Taken, b.name)
		return true, err
	})
	if err != nil {
		return b.failed(err)
	}
	return nil
}

// Close implements trinity.Buffer. Of a process that was the trainer it tells the explorers of others.
func (b *SQL) Close() error { return b.close() }

func (b *SQL) end() error {
	close(b.ended) // wakes a Take that waits, which has the lock
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.claim != "" {
		if err = b.own(context.Background(), "closed = 1"); errors.Is(err, errTrainer) {
			err = nil
		}
	}
	return errors.Join(err, b.db.Close())
}

func (b *SQL) isClosed() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}
