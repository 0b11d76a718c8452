//go:build unix

package database

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// If the context ends before the commit, nothing is stored and Update returns an error. If it ends
// while the server commits, the transaction is stored and there is no error.
func TestTheEndOfAContextLeavesNoDoubt(t *testing.T) {
	a, err := dburl.Parse(server.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), a, Options{Retries: 1000, Interval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		"CREATE TABLE counted (n INT)",
		"CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END'",
		"CREATE CONSTRAINT TRIGGER lingers AFTER INSERT ON counted DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION linger()",
		// with the commit
	} {
		if _, err := db.pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	insert := func(ctx context.Context, n int, after func()) error {
		return db.Update(ctx, func(ctx context.Context, tx Tx) (bool, error) {
			_, err := tx.Exec(ctx, "INSERT INTO counted VALUES (?)", n)
			after()
			return true, err
		})
	}
	rows := func(query string) (n int) {
		t.Helper()
		if err := db.pool.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	ctx, cancel := context.WithCancel(t.Context())
	if err := insert(ctx, 1, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ends before the commit: %v", err)
	}
	holder, err := db.pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock(7)"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- insert(ctx, 2, func() {}) }()
	for rows("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 0 {
		time.Sleep(time.Millisecond) // until the server is at the commit
	}
	cancel()
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("a context that ends during the commit: %v", err)
	}
	if n := rows("SELECT sum(n) FROM counted"); n != 2 {
		t.Errorf("the rows add up to %d, want that of the second, 2", n)
	}
}
