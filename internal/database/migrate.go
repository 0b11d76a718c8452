package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Migrate brings the tables of a part of the schema to the newest version. Each step leads to one
// version. Its statements may run twice, because MySQL cannot roll back half a step. In them,
// {text}, {blob}, {number} (a key that counts rows) and {table} (the end of CREATE TABLE) stand for
// the server's words. Steps are added, never changed. Migrate returns an error for a database of a
// newer version.
func (db *DB) Migrate(ctx context.Context, part string, steps [][]string) error {
	var version int
	err := db.Update(ctx, func(ctx context.Context, t Tx) (bool, error) {
		if err := t.lockSchema(ctx, db.patience()/2); err != nil {
			return false, err
		}
		defer t.unlockSchema(context.WithoutCancel(ctx)) // the lock ends with the connection at the latest
		const table = "CREATE TABLE IF NOT EXISTS trinity_schema (part VARCHAR(64) PRIMARY KEY, version INT NOT NULL){table}"
		if _, err := t.Exec(ctx, t.kind.words.Replace(table)); err != nil {
			return false, err
		}
		err := t.Row(ctx, "SELECT version FROM trinity_schema WHERE part = ?", []any{part}, &version)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return false, err
		}
		if version >= len(steps) {
			return false, nil
		}
		for _, step := range steps[version:] {
			for _, s := range step {
				if _, err := t.Exec(ctx, t.kind.words.Replace(s)); err != nil {
					return false, fmt.Errorf("%.40s…: %w", strings.TrimSpace(s), err)
				}
			}
		}
		if _, err := t.Exec(ctx, "DELETE FROM trinity_schema WHERE part = ?", part); err != nil {
			return false, err
		}
		_, err = t.Exec(ctx, "INSERT INTO trinity_schema (part, version) VALUES (?, ?)", part, len(steps))
		return true, err
	})
	if err == nil && version > len(steps) {
		err = fmt.Errorf("%s: the tables of the %s have version %d, and this program knows %d: use the program that made them, "+
			"or another database",
			db, part, version, len(steps))
	}
	return err
}

// lockSchema prevents other processes from changing the schema. It waits for the given time at
// most.
func (t Tx) lockSchema(ctx context.Context, wait time.Duration) error {
	if t.kind.lock == "" {
		return nil
	}
	var got sql.NullInt64
	query := strings.ReplaceAll(t.kind.lock, "{seconds}", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	if err := t.tx.QueryRowContext(ctx, query).Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errSchema
	}
	return nil
}

func (t Tx) unlockSchema(ctx context.Context) {
	if t.kind.unlock != "" {
		_, _ = t.tx.ExecContext(ctx, t.kind.unlock) // if it fails, the connection is lost, and the lock with it
	}
}
