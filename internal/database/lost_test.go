package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/lib/pq"
)

// Errors of the connection pass. Errors that would come again do not.
func TestTransient(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	for _, c := range []struct {
		err             error
		postgres, mysql bool
	}{
		{reset, true, true}, {fmt.Errorf("commit: %w", reset), true, true}, {silent(1), true, true}, {io.ErrUnexpectedEOF, true, true},
		{driver.ErrBadConn, true, true},
		{mysql.ErrInvalidConn, true, true}, {sql.ErrConnDone, true, true}, {errCommit, true, true},
		{errSchema, true, true},
		{&pq.Error{Code: "57P01"}, true, false}, {&pq.Error{Code: "40001"}, true, false},
		{&pq.Error{Code: "42P01"}, false, false},
		{&mysql.MySQLError{Number: 1213}, false, true}, {&mysql.MySQLError{Number: 1146}, false, false},
		{sql.ErrNoRows, false, false}, {fmt.Errorf("the row: %w", sql.ErrNoRows), false, false},
		{errors.New("row 3: two columns are named x"), false, false},
		{errors.New("sql: Scan error on column index 0"), false, false},
	} {
		if got := postgres.transient(c.err); got != c.postgres {
			t.Errorf("PostgreSQL, %v: %v, want %v", c.err, got, c.postgres)
		}
		if got := mySQL.transient(c.err); got != c.mysql {
			t.Errorf("MySQL, %v: %v, want %v", c.err, got, c.mysql)
		}
		if sqlite.transient(c.err) {
			t.Errorf("SQLite, %v: it has no connections", c.err)
		}
	}
}

// sql.ErrNoRows reaches the caller, and Update does not retry.
func TestNoRowsReachesTheCaller(t *testing.T) {
	db := openTest(t, "sqlite:///"+filepath.ToSlash(filepath.Join(t.TempDir(), "a.db")), Options{Retries: 1000})
	tries := 0
	err := db.Update(t.Context(), func(ctx context.Context, tx Tx) (bool, error) {
		tries++
		n := 0
		return false, tx.Row(ctx, "SELECT 1 WHERE 1 = 0", nil, &n)
	})
	if !errors.Is(err, sql.ErrNoRows) || tries != 1 {
		t.Errorf("%v after %d tries, want sql.ErrNoRows after one", err, tries)
	}
}
