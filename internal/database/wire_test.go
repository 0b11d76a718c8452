//go:build unix

package database

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/trinitytest/server"
)

func openTest(t *testing.T, url string, o Options) *DB {
	t.Helper()
	a, err := dburl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// nothingDone runs a transaction that asks the server for a number.
func nothingDone(t *testing.T, db *DB) error {
	return db.Update(t.Context(), func(ctx context.Context, tx Tx) (bool, error) {
		n := 0
		return false, tx.Row(ctx, "SELECT 1", nil, &n)
	})
}

func TestServers(t *testing.T) {
	for name, c := range map[string]struct {
		start       func(*testing.T) *server.Server
		hold, words string
	}{
		"PostgreSQL": {server.Postgres, "SELECT 1 FROM pg_advisory_lock(7381643)", "the server was silent"},
		"MariaDB":    {server.MariaDB, "SELECT GET_LOCK('trinity_schema', 60)", errSchema.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.start(t)
			t.Run("silent", func(t *testing.T) { fallsSilent(t, server.Wired(t, s)) })
			t.Run("schema", func(t *testing.T) { migratesInTurn(t, s.URL, c.hold, c.words) })
			t.Run("deadlock", func(t *testing.T) { deadlocks(t, s.URL) })
		})
	}
}

// fallsSilent makes the network drop packets: every access fails with an error that names the
// server, and a new connection works.
func fallsSilent(t *testing.T, wire *server.Wire) {
	db := openTest(t, wire.URL, Options{Silence: 2 * time.Second, Retries: 100, Interval: 1e8})
	if err := nothingDone(t, db); err != nil {
		t.Fatal(err)
	}
	wire.Cut()
	db.Retries = 0
	err := nothingDone(t, db)
	if err == nil || !strings.Contains(err.Error(), db.String()) || !strings.Contains(err.Error(), "the server was silent for") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want that the server is silent", err)
	}
	db.Retries = 3
	if err := nothingDone(t, db); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

// A timeout by the limit of a wire is silent. A timeout by the deadline of its user is not.
func TestWire(t *testing.T) {
	for name, c := range map[string]struct {
		limit, deadline time.Duration // deadline 0 is none
		own             bool
	}{
		"nobody has set one": {limit: time.Millisecond, own: true}, "a later one": {limit: time.Millisecond, deadline: time.Hour, own: true},
		"a sooner one": {limit: time.Hour, deadline: time.Millisecond}, "one that has passed": {limit: time.Hour, deadline: -time.Hour},
	} {
		here, there := net.Pipe()
		w := &wire{Conn: here, limit: c.limit}
		if c.deadline != 0 {
			if err := w.SetDeadline(time.Now().Add(c.deadline)); err != nil {
				t.Fatal(err)
			}
		}
		for what, wait := range map[string]func([]byte) (int, error){"read": w.Read, "write": w.Write} {
			_, err := wait(make([]byte, 1))
			if _, own := err.(silent); own != c.own || !os.IsTimeout(err) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		if w.gone != c.own {
			t.Errorf("%s: given up %v", name, w.gone)
		}
		there.Close()
		here.Close()
	}
}

// A deadline that is set during a wait ends the wait.
func TestADeadlineEndsAWait(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	w := &wire{Conn: here, limit: time.Hour}
	ended := make(chan error)
	go func() {
		_, err := w.Read(make([]byte, 1))
		ended <- err
	}()
	if err := w.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !os.IsTimeout(err) {
		t.Error(err)
	}
}
