package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/retry"
)

// What Update commits is on the disk before it returns.
func TestSQLiteWaitsForTheDisk(t *testing.T) {
	db := openTest(t, "sqlite:///"+filepath.ToSlash(filepath.Join(t.TempDir(), "a.db")), Options{})
	level := 0
	err := db.Update(t.Context(), func(ctx context.Context, tx Tx) (bool, error) {
		return true, tx.Row(ctx, "PRAGMA synchronous", nil, &level)
	})
	if full := 2; err != nil || level != full {
		t.Errorf("PRAGMA synchronous is %d, %v; want FULL, %d", level, err, full)
	}
}

// If the context ends before the commit, Update commits nothing, even if no statement failed. The
// test runs often, because a late check would fail only by chance.
func TestAContextThatEndsBeforeTheCommit(t *testing.T) {
	db := openTest(t, "sqlite:///"+filepath.ToSlash(filepath.Join(t.TempDir(), "a.db")), Options{})
	if _, err := db.pool.ExecContext(t.Context(), "CREATE TABLE counted (n INT)"); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		err := db.Update(ctx, func(ctx context.Context, tx Tx) (bool, error) {
			_, err := tx.Exec(ctx, "INSERT INTO counted VALUES (1)")
			cancel()
			return true, err
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want %v", err, context.Canceled)
		}
	}
	rows := 0
	if err := db.pool.QueryRowContext(t.Context(), "SELECT count(*) FROM counted").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows are there, %v", rows, err)
	}
}

// stuck is a server that answers no commit, like one whose disk hangs.
type stuck struct{ whole context.Context }

func (s *stuck) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *stuck) Driver() driver.Driver                        { return nil }
func (s *stuck) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (s *stuck) Close() error                                 { return nil }
func (s *stuck) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (s *stuck) Rollback() error                              { return nil }

func (s *stuck) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	s.whole = ctx
	return s, nil
}

func (s *stuck) Commit() error {
	<-s.whole.Done()
	return s.whole.Err()
}

// Update abandons a commit without an answer and retries. fn finds out what became of the first
// commit.
func TestACommitThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := dburl.Parse("postgresql://trinity@127.0.0.1/hangs")
		if err != nil {
			t.Fatal(err)
		}
		kind := *postgres
		db := &DB{Address: a, kind: &kind, Options: Options{Retries: 1, Interval: time.Second},
			server: retry.NewServer(t.Context()), pool: sql.OpenDB(&stuck{})}
		defer db.pool.Close()
		began, tries := time.Now(), 0
		err = db.Update(t.Context(), func(context.Context, Tx) (bool, error) { tries++; return true, nil })
		if !errors.Is(err, errCommit) || !strings.Contains(err.Error(), "was not committed within 30s") || tries != 2 {
			t.Errorf("got %v after %d tries, want after 2: %v", err, tries, errCommit)
		}
		if took := time.Since(began); took != 61*time.Second {
			t.Errorf("it took %v of made-up time, want 30 s twice and 1 s in between", took)
		}
	})
}
