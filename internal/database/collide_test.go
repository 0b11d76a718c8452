package database

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/lib/pq"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/retry"
)

// aBusyFile is what SQLite says of one.
func aBusyFile(t *testing.T) error {
	file := "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "a.db")) + "?_txlock=immediate"
	begin := func() error {
		db, err := sql.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		tx, err := db.Begin()
		if err == nil {
			t.Cleanup(func() { tx.Rollback() })
		}
		return err
	}
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	return begin()
}

// A collision is retried at once, for a while, without a line for people.
func TestCollisionsAreNoOutage(t *testing.T) {
	busy := aBusyFile(t)
	for name, c := range map[string]struct {
		kind   *dialect
		err    error
		pauses time.Duration // after three collisions; 0 is that they are none
	}{
		"PostgreSQL, deadlock":        {postgres, &pq.Error{Code: "40P01"}, 7 * time.Millisecond},
		"PostgreSQL, serialization":   {postgres, &pq.Error{Code: "40001"}, 7 * time.Millisecond},
		"PostgreSQL, shutdown":        {postgres, &pq.Error{Code: "57P01"}, 0},
		"MySQL, deadlock":             {mySQL, &mysql.MySQLError{Number: 1213}, 7 * time.Millisecond},
		"MySQL, too many connections": {mySQL, &mysql.MySQLError{Number: 1040}, 0}, "SQLite": {sqlite, busy, 7 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said []string
				options := Options{Say: func(line string) { said = append(said, line) }}
				a, err := dburl.Parse("postgresql://ann@host/rft")
				if err != nil {
					t.Fatal(err)
				}
				db := &DB{Address: a, kind: c.kind, Options: options, server: retry.NewServer(t.Context())}
				failing := func(times int) (took time.Duration, err error) {
					begin := time.Now()
					err = db.Retry(t.Context(), func(context.Context) error {
						if times--; times >= 0 {
							return c.err
						}
						return nil
					})
					return time.Since(begin), err
				}
				took, err := failing(3)
				if collides := c.pauses > 0; collides != (err == nil) || took != c.pauses || len(said) > 0 {
					t.Errorf("%v after %v, said %q; want an answer after %v", err, took, said, c.pauses)
				}
				if took, err := failing(1e6); !errors.Is(err, c.err) || c.pauses > 0 && (took < crowded || took > crowded+time.Second) {
					t.Errorf("without end: %v after %v", err, took)
				}
			})
		})
	}
}

// deadlocks lets two transactions wait for each other. Both succeed in the end, without a line for
// people.
func deadlocks(t *testing.T, url string) {
	db := openTest(t, url, Options{Retries: 100, Interval: 1e8})
	steps := [][]string{{"CREATE TABLE locked (n INT PRIMARY KEY, times INT NOT NULL){table}", "DELETE FROM locked",
		"INSERT INTO locked VALUES (1, 0), (2, 0)"}}
	if err := db.Migrate(t.Context(), "locked", steps); err != nil {
		t.Fatal(err)
	}
	db.Retries, db.Say = 0, func(line string) { t.Error(line) }
	has, tries, done := [2]chan struct{}{make(chan struct{}), make(chan struct{})}, [2]int{}, make(chan error)
	for i := range 2 {
		go func() {
			done <- db.Update(t.Context(), func(ctx context.Context, tx Tx) (bool, error) {
				tries[i]++
				add := func(n int) error {
					_, err := tx.Exec(ctx, "UPDATE locked SET times = times + 1 WHERE n = ?", n)
					return err
				}
				if err := add(1 + i); err != nil {
					return false, err
				}
				if tries[i] == 1 {
					close(has[i])
					<-has[1-i]
				}
				return true, add(2 - i)
			})
		}()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
	if tries[0]+tries[1] < 3 {
		t.Error("nobody was in another's way")
	}
	n := 0
	if err := db.pool.QueryRowContext(t.Context(), "SELECT SUM(times) FROM locked").Scan(&n); err != nil || n != 4 {
		t.Errorf("the rows were changed %d times, %v; want 4", n, err)
	}
}
