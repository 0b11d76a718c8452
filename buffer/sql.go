package buffer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
// number. Of several processes that want to be one explorer the last one is it, as of those that want to be the trainer.
type SQL struct {
	*shared
	name string
	db   *database.DB
}

// OpenSQL makes the tables of a buffer where there are none, and opens it.
func OpenSQL(ctx context.Context, a database.Address, s trinity.BufferSpec) (*SQL, error) {
	if err := database.CheckName(s.Name, "project, group, name or buffer.trainer_input.experience_buffer.name"); err != nil {
		return nil, err
	}
	db, err := database.Open(ctx, a, database.Options{Retries: s.Retries, Interval: s.RetryInterval, Stop: s.Stop, Say: s.Say})
	if err != nil {
		return nil, err
	}
	b := &SQL{shared: newShared(s), name: s.Name, db: db}
	b.server = (*sqlServer)(b)
	err = db.Migrate(ctx, "buffer", sqlSchema)
	if err == nil {
		err = db.Update(ctx, func(t database.Tx) (bool, error) { return true, t.Insert(ctx, "trinity_buffers", "name", s.Name) })
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return b, nil
}

// sqlServer is the database as the trainer uses it.
type sqlServer SQL

func (b *sqlServer) String() string { return fmt.Sprintf("%s, buffer %s", b.db, b.name) }

func (b *sqlServer) took(ctx context.Context, claim string, at sharedPlace) error {
	return b.own(ctx, claim, "taken = ?, taken_rollouts = ?", at.Taken, at.Rollouts)
}

func (b *sqlServer) over(ctx context.Context, claim string) error {
	err := b.own(ctx, claim, "closed = 1")
	if errors.Is(err, errTrainer) || errors.Is(err, errGone) {
		return nil
	}
	return err
}

// sqlRead reads the row of a buffer, or of an explorer, which nobody removes but people.
func sqlRead(ctx context.Context, t database.Tx, query string, args []any, into ...any) error {
	err := t.Row(ctx, query, args, into...)
	if errors.Is(err, sql.ErrNoRows) {
		return errGone
	}
	return err
}

// own changes the buffer's row, as its trainer. A checkpoint has what is to last.
func (b *sqlServer) own(ctx context.Context, claim, set string, values ...any) error {
	found := int64(0)
	err := b.db.Note(ctx, func(t database.Tx) (bool, error) {
		var err error
		found, err = t.Exec(ctx, "UPDATE trinity_buffers SET "+set+" WHERE name = ? AND trainer = ?", append(values, b.name, claim)...)
		if err == nil && found == 0 {
			var name string
			err = sqlRead(ctx, t, "SELECT name FROM trinity_buffers WHERE name = ?", []any{b.name}, &name)
		}
		return true, err
	})
	if err == nil && found == 0 {
		err = fmt.Errorf("%s: %w", b.db, errTrainer)
	}
	return err
}

func (b *sqlServer) claimed(ctx context.Context, claim string, at sharedPlace) error {
	var put, trimmed int64
	err := b.db.Update(ctx, func(t database.Tx) (bool, error) {
		if err := sqlRead(ctx, t, "SELECT put, trimmed FROM trinity_buffers WHERE name = ?", []any{b.name}, &put, &trimmed); err != nil {
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
		return fmt.Errorf("%s: buffer %s has %d experiences, and the checkpoint goes on after experience %d: was it removed? %s", b.db, b.name, put, at.Taken, fewer)
	case at.Taken < trimmed:
		return fmt.Errorf("%s: buffer %s is to be read from experience %d on, and keeps none before %d, because checkpoints were written later: set another name, or go on from one of them",
			b.db, b.name, at.Taken+1, trimmed+1)
	}
	return nil
}

// trimRows is how many rows a transaction trims: who puts and takes waits for it, and it is to be over long before the server counts as silent.
const trimRows = 1000

// trim leaves of rows what people read. A run that is stopped leaves the rest to the next checkpoint.
func (b *sqlServer) trim(ctx context.Context, claim string, taken int64) error {
	for trimmed := int64(-1); trimmed < taken; {
		var err error
		if trimmed, err = b.trimSome(ctx, claim, taken); err != nil {
			return err
		}
		if b.db.Stop != nil && b.db.Stop.Err() != nil {
			return nil
		}
	}
	return nil
}

// trimSome trims the next rows up to a number, and says up to which one that is done.
func (b *sqlServer) trimSome(ctx context.Context, claim string, taken int64) (trimmed int64, err error) {
	var trainer string
	err = b.db.Update(ctx, func(t database.Tx) (bool, error) {
		err := sqlRead(ctx, t, "SELECT trimmed, trainer FROM trinity_buffers WHERE name = ?", []any{b.name}, &trimmed, &trainer)
		if err != nil || trainer != claim || trimmed >= taken {
			return false, err
		}
		end := min(trimmed+trimRows, taken)
		const rows = "UPDATE trinity_experiences SET experience = NULL WHERE buffer = ? AND number > ? AND number <= ?"
		if _, err := t.Exec(ctx, rows, b.name, trimmed, end); err != nil {
			return false, err
		}
		_, err = t.Exec(ctx, "UPDATE trinity_buffers SET trimmed = ? WHERE name = ?", end, b.name)
		trimmed = end
		return true, err
	})
	if err == nil && trainer != claim {
		err = fmt.Errorf("%s: %w", b.db, errTrainer)
	}
	return trimmed, err
}

func (b *sqlServer) changed() <-chan struct{} { return b.db.Changed() }

func (b *sqlServer) look(n int) <-chan time.Time { return b.db.Look(n) }

func (b *sqlServer) hangUp() error { return b.db.Close() }
