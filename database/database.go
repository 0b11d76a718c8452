package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/failpoint"
)

var (
	failCommit    = failpoint.New("database.commit")
	failCommitted = failpoint.New("database.committed")
)

// Options say how a database is used.
type Options struct {
	ReadOnly bool
	Retries  int           // after an error that may pass, such as a lost connection
	Interval time.Duration // between them
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	Address
	Options
	*bell
	pool *sql.DB
	lazy *sql.DB // does not wait for the disk, where that is a property of the connection; and reads
	stop context.CancelFunc
}

// Open connects to a database, and watches it for what other processes change unless it is read only. SQLite's file is made where there is none.
func Open(ctx context.Context, a Address, o Options) (*DB, error) {
	if a.kind == sqlite {
		if err := sqliteFile(a.file, o.ReadOnly); err != nil {
			return nil, err
		}
	}
	pool, lazy, err := a.kind.open(a, o.ReadOnly)
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	db := &DB{Address: a, Options: o, bell: newBell(), pool: pool, lazy: lazy, stop: stop}
	err = db.Retry(ctx, func() error { return pool.PingContext(ctx) })
	if err == nil && !o.ReadOnly && a.kind.watch != nil {
		err = db.Retry(ctx, func() error { return a.kind.watch(watching, db) })
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func sqliteFile(path string, readOnly bool) error {
	if readOnly {
		_, err := os.Stat(path)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644) // its error says why, which SQLite's does not
	if err != nil {
		return err
	}
	return f.Close()
}

// Close ends all connections.
func (db *DB) Close() error {
	db.stop()
	return errors.Join(db.pool.Close(), db.lazy.Close())
}

// Retry has fn tried again, from its beginning, after errors that may pass. Its error names the database.
func (db *DB) Retry(ctx context.Context, fn func() error) error {
	for try := 0; ; try++ {
		err := fn()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !db.kind.transient(err):
			return fmt.Errorf("%s: %s", db, oneLine(err))
		case try >= db.Retries:
			return fmt.Errorf("%s: tried %d times, %v apart (max_retry_times, max_retry_interval): %s", db, try+1, db.Interval, oneLine(err))
		}
		select {
		case <-time.After(db.Interval):
		case <-ctx.Done():
			return fmt.Errorf("%s: %s: %w", db, oneLine(err), context.Cause(ctx))
		}
	}
}

// oneLine is the text of an error, of which pgx makes a line for each address of a host.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Update runs fn in a transaction, which is committed if fn says so, and wakes all who wait for a change then. It is tried again as Retry does: where the
// answer to a commit was lost, fn must find out itself that it was done.
func (db *DB) Update(ctx context.Context, fn func(Tx) (commit bool, err error)) error {
	return db.update(ctx, db.pool, fn)
}

// Note is Update for what may be lost in a power cut: it need not be on the disk before it returns.
func (db *DB) Note(ctx context.Context, fn func(Tx) (commit bool, err error)) error {
	return db.update(ctx, db.lazy, fn)
}

func (db *DB) update(ctx context.Context, pool *sql.DB, fn func(Tx) (commit bool, err error)) error {
	return db.Retry(ctx, func() error {
		tx, err := pool.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing once it is committed
		if commit, err := fn(Tx{tx, db.kind}); err != nil || !commit {
			return err
		}
		if n := db.kind.notify; n != "" {
			if _, err := tx.ExecContext(ctx, n); err != nil {
				return err
			}
		}
		if err := failCommit.Hit(db.String()); err != nil {
			return err
		}
		if err := errors.Join(tx.Commit(), failCommitted.Hit(db.String())); err != nil {
			return err
		}
		db.ring()
		if db.kind == sqlite {
			return touch(db.file)
		}
		return nil
	})
}

// Tx is a transaction in progress.
type Tx struct {
	tx   *sql.Tx
	kind *dialect
}

// Exec runs a statement and says how many rows it has found.
func (t Tx) Exec(ctx context.Context, query string, args ...any) (rows int64, err error) {
	r, err := t.tx.ExecContext(ctx, t.kind.bind(query), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Row reads the row of a query, which no other transaction changes before this one has ended; sql.ErrNoRows if there is none.
func (t Tx) Row(ctx context.Context, query string, args []any, into ...any) error {
	return t.tx.QueryRowContext(ctx, t.kind.bind(query+t.kind.locks), args...).Scan(into...)
}

// Insert adds a row to a table unless one of its key is there.
func (t Tx) Insert(ctx context.Context, table, columns string, values ...any) error {
	query := fmt.Sprintf("%s %s (%s) VALUES (%s) %s", t.kind.insert, table, columns, marks(len(values)), t.kind.unless)
	_, err := t.Exec(ctx, query, values...)
	return err
}

// InsertAll adds rows to a table, in one statement.
func (t Tx) InsertAll(ctx context.Context, table, columns string, rows [][]any) error {
	row := "(" + marks(len(rows[0])) + ")"
	query := fmt.Sprintf("INSERT INTO %s (%s) VALUES %s", table, columns, strings.TrimSuffix(strings.Repeat(row+",", len(rows)), ","))
	_, err := t.Exec(ctx, query, slices.Concat(rows...)...)
	return err
}

// Each reads the rows of a query, and hands scan one after the other. It is tried again as a whole as Retry does, so scan is told when it begins anew.
func (db *DB) Each(ctx context.Context, query string, args []any, begin func(), scan func(*sql.Rows) error) error {
	return db.Retry(ctx, func() error {
		begin()
		rows, err := db.lazy.QueryContext(ctx, db.kind.bind(query), args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// marks are n parameters.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }
