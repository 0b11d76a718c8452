package database

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/jackc/pgx/v5"
)

// bell wakes all who wait for a change.
type bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

func newBell() *bell { return &bell{rung: make(chan struct{})} }

// Changed is closed once something has changed: who is to miss nothing asks for it before they look.
func (b *bell) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
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

func touch(file string) error { return os.WriteFile(signal(file), []byte("\n"), 0o644) }

// watchFile has the bell rung when another process has touched the signal.
func watchFile(ctx context.Context, db *DB) error {
	if err := touch(db.file); err != nil {
		return err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	if err := w.Add(signal(db.file)); err != nil {
		return err
	}
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
			if conn != nil {
				if _, err := conn.WaitForNotification(ctx); err == nil {
					db.ring()
					continue
				}
				_ = conn.Close(context.Background()) // it is lost
			} else {
				select {
				case <-time.After(db.Interval):
				case <-ctx.Done():
				}
			}
			conn, _ = listener(ctx, db) // a server that is gone is the error of who wants something of it
			db.ring()
		}
	}()
	return nil
}

func listener(ctx context.Context, db *DB) (*pgx.Conn, error) {
	cfg, err := postgresConfig(db.Address)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		_ = conn.Close(context.Background()) // the error is what was to be said
		return nil, err
	}
	return conn, nil
}
