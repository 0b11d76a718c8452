package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/retry"
)

var (
	failCommit    = failpoint.New("database.commit")
	failCommitted = failpoint.New("database.committed")
)

// Denied says what to do if a server rejects user or password.
const Denied = "check user and password in the URL at path; they may come from the environment: user:${oc.env:DB_PASSWORD}@host"

// Options are the settings of a database.
type Options struct {
	ReadOnly bool
	// Untouched writes nothing beside a file of SQLite that is read. Without it a reader leaves files
	// there. What a killed program left in a -wal file without its -shm file is not read then.
	Untouched bool
	Retries   int           // after an error that may pass, such as a lost connection
	Interval  time.Duration // before each retry
	Silence   time.Duration // how long a server may be silent, at each wait for it; 0 means 30 s
	Say       func(string)  // prints a line when the server is lost, and when it is back; may be nil
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	dburl.Address
	Options
	kind   *dialect
	server *retry.Server
	pool   *sql.DB
}

// Open connects to a database. It creates the file of SQLite if there is none. ctx lasts as long as
// the database is used: when it ends, the run is stopped, and the methods retry nothing and wait
// [retry.Grace] at most, whatever their own contexts.
func Open(ctx context.Context, a dburl.Address, o Options) (*DB, error) {
	kind := dialects[a.Kind()]
	if kind == sqlite {
		if err := sqliteFile(a.File(), o.ReadOnly); err != nil {
			return nil, err
		}
	}
	pool, err := kind.open(a, o)
	if err != nil {
		return nil, err
	}
	db := &DB{Address: a, Options: o, kind: kind, server: retry.NewServer(ctx), pool: pool}
	if err := db.Retry(ctx, pool.PingContext); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func sqliteFile(path string, readOnly bool) error {
	if readOnly {
		_, err := os.Stat(path)
		return err
	}
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644) // unlike SQLite's error, this one says why
	if err != nil {
		return err
	}
	return f.Close()
}

// Close ends all connections.
func (db *DB) Close() error { return db.pool.Close() }

// Stopped reports whether the run that uses the database was stopped.
func (db *DB) Stopped() bool { return db.server.Stopped() }

// Retry calls fn, again and from its beginning after errors that may pass. The context of fn ends
// with ctx, and retry.Grace after the run is stopped. The error names the database.
func (db *DB) Retry(ctx context.Context, fn func(context.Context) error) error {
	err := db.server.Ask(ctx, retry.Policy{
		Name: db.String(), Retries: db.Retries, Interval: db.Interval, Passes: db.kind.passes, Text: oneLine, Say: db.Say,
	}, db.inTurn(fn))
	var told *retry.Error
	switch {
	case err == nil, errors.As(err, &told):
		return err
	case db.kind.denies(err):
		return fmt.Errorf("%s: %s; %s", db, oneLine(err), Denied)
	case damaged(err):
		return fmt.Errorf("%s: %s; the file is damaged: restore it from a copy, or begin anew with another file and another name of the run",
			db, oneLine(err))
	}
	return &failed{db.String(), err}
}

// failed is an error that does not pass, in one line.
type failed struct {
	database string
	err      error
}

func (f *failed) Error() string { return f.database + ": " + oneLine(f.err) }

func (f *failed) Unwrap() error { return f.err }

// Update runs fn in a transaction and commits it if fn says so. It retries as Retry does. If the
// answer to a commit was lost, fn itself must find out whether the commit was done. When ctx ends,
// the transaction ends, and with it the context of fn. Update still waits for a commit in progress,
// because otherwise nobody would know whether it was done.
func (db *DB) Update(ctx context.Context, fn func(context.Context, Tx) (commit bool, err error)) error {
	return db.Retry(ctx, func(ctx context.Context) error {
		whole, end := context.WithCancelCause(context.WithoutCancel(ctx))
		defer end(nil)
		committing := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
		defer committing() // if there is no commit
		tx, err := db.pool.BeginTx(whole, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after a commit
		if commit, err := fn(whole, Tx{tx, db.kind}); err != nil || !commit {
			return err
		}
		if err := failCommit.Hit(db.String()); err != nil {
			return err
		}
		if !committing() {
			return context.Cause(ctx)
		}
		defer time.AfterFunc(commitTimeout, func() { end(errCommit) }).Stop()
		if err := errors.Join(tx.Commit(), failCommitted.Hit(db.String())); err != nil {
			return cmp.Or(context.Cause(whole), err)
		}
		return nil
	})
}

// commitTimeout bounds how long a server may take to write a transaction to its disk. Then Update
// abandons the connection.
const commitTimeout = 30 * time.Second

var errCommit = fmt.Errorf("a transaction was not committed within %v", commitTimeout)

// Tx is a transaction in progress.
type Tx struct {
	tx   *sql.Tx
	kind *dialect
}

// Exec runs a statement and returns how many rows it has found.
func (t Tx) Exec(ctx context.Context, query string, args ...any) (rows int64, err error) {
	r, err := t.tx.ExecContext(ctx, t.kind.bind(query), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Row reads the row of a query, and locks it until the transaction ends. The error is sql.ErrNoRows
// if there is none.
func (t Tx) Row(ctx context.Context, query string, args []any, into ...any) error {
	return t.tx.QueryRowContext(ctx, t.kind.bind(query+t.kind.locks), args...).Scan(into...)
}

// Each reads the rows of a query and calls scan for each. It retries as Retry does, and calls begin
// before every attempt.
func (db *DB) Each(ctx context.Context, query string, args []any, begin func(), scan func(*sql.Rows) error) error {
	return db.Retry(ctx, func(ctx context.Context) error {
		begin()
		rows, err := db.pool.QueryContext(ctx, db.kind.bind(query), args...)
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
