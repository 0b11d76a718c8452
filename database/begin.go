package database

import (
	"context"
	"database/sql"
	"errors"
)

// beginner starts a transaction, whose commit does not wait for the disk if it is hasty and the server can be told; release gives its connection back.
type beginner func(ctx context.Context, pool *sql.DB, hasty bool) (tx *sql.Tx, release func() error, err error)

func nothing() error { return nil }

func begin(ctx context.Context, pool *sql.DB, _ bool) (*sql.Tx, func() error, error) {
	tx, err := pool.BeginTx(ctx, nil)
	return tx, nothing, err
}

// beginSQLite has one connection for both kinds: what one of two has changed the other would read again.
func beginSQLite(ctx context.Context, pool *sql.DB, hasty bool) (*sql.Tx, func() error, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	level := "PRAGMA synchronous = FULL"
	if hasty {
		level = "PRAGMA synchronous = NORMAL"
	}
	if _, err := conn.ExecContext(ctx, level); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return tx, conn.Close, nil
}

func beginPostgres(ctx context.Context, pool *sql.DB, hasty bool) (*sql.Tx, func() error, error) {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil || !hasty {
		return tx, nothing, err
	}
	if _, err := tx.ExecContext(ctx, "SET LOCAL synchronous_commit = off"); err != nil {
		return nil, nil, errors.Join(err, tx.Rollback())
	}
	return tx, nothing, nil
}
