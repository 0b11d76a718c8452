package database

import (
	"context"
	"time"
)

// crowded is for how long those that are in one another's way are let try again at once, as long as SQLite itself waits for a file.
const crowded = 10 * time.Second

// inTurn is fn, again while others are in its way: a deadlock, or a busy file, is no outage of the server.
func (db *DB) inTurn(fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for begin, pause := time.Now(), time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
			err := fn(ctx)
			if err == nil || !db.kind.collides(err) || time.Since(begin) >= crowded {
				return err
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return err
			}
		}
	}
}
