package database

import (
	"context"
	"time"
)

// crowded bounds the immediate retries after collisions. SQLite waits as long for a file.
const crowded = 10 * time.Second

// inTurn returns fn with immediate retries while it collides with others: a deadlock or a busy file
// does not mean that the server is lost.
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
