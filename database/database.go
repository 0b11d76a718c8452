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

	"github.com/trinity-go/trinity/durable"
	"github.com/trinity-go/trinity/failpoint"
	"github.com/trinity-go/trinity/outage"
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
	Alone    bool          // nobody waits for changes: none are watched for, or told of
	Silence  time.Duration // after which a server that does not answer is given up, at each wait for it; 0 is 30 s

	Stop context.Context // once it ends nothing is tried again, and no server waited for that does not answer, see package outage; nil is never
	Say  func(string)    // is told when the server is lost, and when it is back; nil is not
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	Address
	Options
	bell
	server outage.Server
	pool   *sql.DB
	signal *os.File // of SQLite that other processes watch; nil of others
	stop   context.CancelFunc
}

// Open connects to a database, and watches it for what other processes change unless it is read only or for one alone. SQLite's file is made where there is none.
func Open(ctx context.Context, a Address, o Options) (*DB, error) {
	if a.kind == sqlite {
		if err := sqliteFile(a.file, o.ReadOnly); err != nil {
			return nil, err
		}
	}
	pool, err := a.kind.open(a, o)
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	db := &DB{Address: a, Options: o, pool: pool, stop: stop}
	err = db.Retry(ctx, pool.PingContext)
	if err == nil && !o.ReadOnly && !o.Alone && a.kind.watch != nil {
		err = db.Retry(ctx, func(ctx context.Context) error {
			defer context.AfterFunc(ctx, stop)()
			return a.kind.watch(watching, db)
		})
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
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
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
	if db.signal == nil {
		return db.pool.Close()
	}
	return errors.Join(db.pool.Close(), db.signal.Close())
}

// Retry has fn tried again, from its beginning, after errors that may pass. The context of fn ends with ctx, or once the run is stopped. Its error names the
// database.
func (db *DB) Retry(ctx context.Context, fn func(context.Context) error) error {
	err := db.server.Ask(ctx, outage.Policy{
		Name: db.String(), Retries: db.Retries, Interval: db.Interval, Passes: db.kind.passes, Text: oneLine, Stop: db.Stop, Say: db.Say,
	}, db.inTurn(fn))
	var told *outage.Error
	switch {
	case err == nil, errors.As(err, &told):
		return err
	case db.kind.denies(err):
		return fmt.Errorf("%s: %s; %s", db, oneLine(err), Denied)
	case damaged(err):
		return fmt.Errorf("%s: %s; the file is damaged: restore it from a copy, or begin anew with another file and another name of the run", db, oneLine(err))
	}
	return &failed{db.String(), err}
}

// failed is an error that is not tried again, in one line.
type failed struct {
	database string
	err      error
}

func (f *failed) Error() string { return f.database + ": " + oneLine(f.err) }

func (f *failed) Unwrap() error { return f.err }

// Update runs fn in a transaction, which is committed if fn says so, and wakes all who wait for a change then. It is tried again as Retry does: where the
// answer to a commit was lost, fn must find out itself that it was done. When ctx ends the transaction does, but for a commit that has begun: that is waited
// for, because nobody would know whether it was done.
func (db *DB) Update(ctx context.Context, fn func(Tx) (commit bool, err error)) error {
	return db.update(ctx, false, fn)
}

// Note is Update for what may be lost in a power cut: it need not be on the disk before it returns.
func (db *DB) Note(ctx context.Context, fn func(Tx) (commit bool, err error)) error {
	return db.update(ctx, true, fn)
}

func (db *DB) update(ctx context.Context, hasty bool, fn func(Tx) (commit bool, err error)) error {
	return db.Retry(ctx, func(ctx context.Context) error {
		whole, end := context.WithCancelCause(context.WithoutCancel(ctx))
		defer end(nil)
		committing := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
		defer committing() // of a transaction that is not committed nothing stays behind
		tx, release, err := db.kind.begin(whole, db.pool, hasty)
		if err != nil {
			return err
		}
		defer release()
		defer tx.Rollback() // does nothing once it is committed
		if commit, err := fn(Tx{tx, db.kind, whole}); err != nil || !commit {
			return err
		}
		if n := db.kind.notify; n != "" && !db.Alone {
			if _, err := tx.ExecContext(ctx, n); err != nil {
				return err
			}
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
		db.ring()
		return db.tell()
	})
}

// commitTimeout is how long a server may take to flush a transaction to its disk, before the connection is given up.
const commitTimeout = 30 * time.Second

var errCommit = fmt.Errorf("a transaction was not committed within %v", commitTimeout)

// Tx is a transaction in progress.
type Tx struct {
	tx    *sql.Tx
	kind  *dialect
	whole context.Context
}

// within is the context of a statement, which ends with the transaction's too: the run may have been stopped.
func (t Tx) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(t.whole, func() { cancel(context.Cause(t.whole)) })
	return ctx, func() { unhook(); cancel(nil) }
}

// Exec runs a statement and says how many rows it has found.
func (t Tx) Exec(ctx context.Context, query string, args ...any) (rows int64, err error) {
	ctx, end := t.within(ctx)
	defer end()
	r, err := t.tx.ExecContext(ctx, t.kind.bind(query), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Row reads the row of a query, which no other transaction changes before this one has ended; sql.ErrNoRows if there is none.
func (t Tx) Row(ctx context.Context, query string, args []any, into ...any) error {
	ctx, end := t.within(ctx)
	defer end()
	return t.tx.QueryRowContext(ctx, t.kind.bind(query+t.kind.locks), args...).Scan(into...)
}

// Each reads the rows of a query, and hands scan one after the other. It is tried again as a whole as Retry does, so scan is told when it begins anew.
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
