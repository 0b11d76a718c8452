//go:build unix

package database

import (
	"strings"
	"testing"
	"time"
)

// migratesInTurn checks that Migrate changes nothing while another process holds the lock.
func migratesInTurn(t *testing.T, url, hold, words string) {
	db := openTest(t, url, Options{Silence: 2 * time.Second})
	holder, err := db.pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	if err := holder.QueryRowContext(t.Context(), hold).Scan(&got); err != nil || got != 1 {
		t.Fatal(got, err)
	}
	steps := [][]string{{"CREATE TABLE made (n INT){table}"}}
	if err := db.Migrate(t.Context(), "test", steps); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("while another process has the lock: %v", err)
	}
	if _, err := db.pool.ExecContext(t.Context(), "INSERT INTO made VALUES (1)"); err == nil {
		t.Error("Migrate made the table without the lock")
	}
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	db.pool.SetMaxIdleConns(0) // ends the connection and its lock
	db.Retries, db.Interval = 100, 1e8
	if err := db.Migrate(t.Context(), "test", steps); err != nil {
		t.Errorf("without the lock: %v", err)
	}
	if _, err := db.pool.ExecContext(t.Context(), "INSERT INTO made VALUES (1)"); err != nil {
		t.Error(err)
	}
}
