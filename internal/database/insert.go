package database

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Bounds of one INSERT statement. A single row may have more bytes.
const (
	insertRows  = 64
	insertBytes = 4 << 20
)

// Insert adds a row to a table, unless the table has a row with its key.
func (t Tx) Insert(ctx context.Context, table, columns string, values ...any) error {
	query := fmt.Sprintf("%s %s (%s) VALUES (%s) %s", t.kind.insert, table, columns, marks(len(values)), t.kind.unless)
	_, err := t.Exec(ctx, query, values...)
	return err
}

// InsertAll adds rows, all of one length, to a table.
func (t Tx) InsertAll(ctx context.Context, table, columns string, rows [][]any) error {
	into := fmt.Sprintf("INSERT INTO %s (%s) VALUES ", table, columns)
	if t.kind == sqlite {
		return t.insertEach(ctx, into, rows)
	}
	for len(rows) > 0 {
		n := fitting(rows)
		row := "(" + marks(len(rows[0])) + ")"
		if _, err := t.Exec(ctx, into+row+strings.Repeat(","+row, n-1), slices.Concat(rows[:n]...)...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// insertEach inserts rows one by one. SQLite runs in this process, and parses a statement with many
// rows more slowly than it runs many calls.
func (t Tx) insertEach(ctx context.Context, into string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	stmt, err := t.tx.PrepareContext(ctx, into+"("+marks(len(rows[0]))+")")
	if err != nil {
		return err
	}
	defer stmt.Close()
	unstoppable := context.WithoutCancel(ctx) // the driver starts a goroutine for each call with a context that can end
	for _, r := range rows {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := stmt.ExecContext(unstoppable, r...); err != nil {
			return err
		}
	}
	return nil
}

// fitting returns how many rows go into the next statement.
func fitting(rows [][]any) int {
	bytes := 0
	for i, r := range rows[:min(len(rows), insertRows)] {
		for _, v := range r {
			switch v := v.(type) {
			case string:
				bytes += len(v)
			case []byte:
				bytes += len(v)
			}
		}
		if i > 0 && bytes > insertBytes {
			return i
		}
	}
	return min(len(rows), insertRows)
}

// marks returns n parameter marks.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }
