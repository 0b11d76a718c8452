package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Migrate brings the tables of a part of the schema to the newest version. Each of steps is a version: statements, with {text}, {blob} and {table} (what ends a
// CREATE TABLE) for the server's words, which change nothing when they run again: MySQL cannot take back half a step. Steps are added, never changed. A
// database of a newer version is refused.
func (db *DB) Migrate(ctx context.Context, part string, steps [][]string) error {
	var version int
	err := db.Update(ctx, func(t Tx) (bool, error) {
		if err := t.only(ctx, t.kind.lock); err != nil {
			return false, err
		}
		defer t.only(context.WithoutCancel(ctx), t.kind.unlock) // it ends with the connection at the latest
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
		err = fmt.Errorf("%s: the tables of the %s are of version %d, and this program knows %d: use the one that made them, or another database", db, part, version, len(steps))
	}
	return err
}

// only runs a statement for what it does; "" is none.
func (t Tx) only(ctx context.Context, query string) error {
	if query == "" {
		return nil
	}
	rows, err := t.tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	return rows.Close()
}
