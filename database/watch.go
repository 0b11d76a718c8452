package database

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/jackc/pgx/v5"

	"github.com/trinity-go/trinity/await"
)

// bell wakes all who wait for a change.
type bell struct {
	mu    sync.Mutex
	point await.Point
}

// Changed is closed once something has changed: who is to miss nothing asks for it before they look.
func (b *bell) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.point.Next()
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.point.Signal()
}

// Look is when to look for changes though nobody has told of one, for the n-th time in a row; nil is never. MySQL has no way to tell other processes.
func (db *DB) Look(n int) <-chan time.Time {
	if db.kind.poll == 0 {
		return nil
	}
	return time.After(min(db.kind.poll, time.Millisecond<<min(n, 20)))
}

// signal is the file beside SQLite's that is written after each commit. The log that SQLite itself writes changes too early: what it has is not yet
// to be read.
func signal(file string) string { return file + "-changed" }

// tell tells other processes, of SQLite's databases.
func (db *DB) tell() error {
	if db.signal == nil {
		return nil
	}
	_, err := db.signal.WriteAt([]byte("\n"), 0)
	return err
}

// watchFile has the bell rung when another process has written the signal.
func watchFile(ctx context.Context, db *DB) error {
	f, err := os.OpenFile(signal(db.file), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if err := w.Add(signal(db.file)); err != nil {
		return errors.Join(err, w.Close(), f.Close())
	}
	db.signal = f
	context.AfterFunc(ctx, func() { w.Close() })
	go func() {
		for {
			select {
			case _, open := <-w.Events:
				if !open {
					return
				}
			case _, open := <-w.Errors: // some were lost
				if !open {
					return
				}
			}
			db.ring()
		}
	}()
	return nil
}

// channel is that of PostgreSQL's notifications.
const channel = "trinity_changed"

// listen has the bell rung by PostgreSQL's notifications. Where the connection is lost, what was said meanwhile is too: the bell is rung for it.
func listen(ctx context.Context, db *DB) error {
	conn, err := listener(ctx, db)
	if err != nil {
		return err
	}
	go func() {
		for ctx.Err() == nil {
			pause := db.pause(conn != nil)
			if conn != nil {
				for db.hear(ctx, conn) == nil {
				}
				hangUp(conn)
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			conn, _ = listener(ctx, db) // a server that is gone is the error of who wants something of it
			db.ring()
		}
		if conn != nil {
			hangUp(conn)
		}
	}()
	return nil
}

// leastPause is between two tries to listen: a server that is away, or that ends each connection, is not to be called without end.
const leastPause = 100 * time.Millisecond

// pause is before the next try to listen, after a connection was lost, or could not be made.
func (db *DB) pause(lost bool) time.Duration {
	if lost {
		return leastPause
	}
	return max(db.Interval, leastPause)
}

// hear waits for a notification. One that does not come for a while has the server asked whether it is there: of a network that drops packets nothing else tells.
func (db *DB) hear(ctx context.Context, conn *pgx.Conn) error {
	wait, cancel := context.WithTimeout(ctx, db.patience()/2) // before the connection itself gives up
	defer cancel()
	_, err := conn.WaitForNotification(wait)
	switch {
	case err == nil:
		db.ring()
		return nil
	case ctx.Err() == nil && wait.Err() != nil:
		return conn.Ping(ctx)
	}
	return err
}

// hangUp ends a connection that may be lost, and does not wait for it.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // nothing is lost with it
}

func listener(ctx context.Context, db *DB) (*pgx.Conn, error) {
	cfg, err := postgresConfig(db.Address, db.Options)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		hangUp(conn)
		return nil, err
	}
	return conn, nil
}
