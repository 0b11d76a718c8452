package database

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// silence is how long a server says nothing, while something is asked of it, before it is given up: a network that drops packets refuses nothing.
const silence = 30 * time.Second

// patience is how long this database may be silent.
func (o Options) patience() time.Duration {
	if o.Silence > 0 {
		return o.Silence
	}
	return silence
}

// limit makes the connections of a configuration wait only so long for the server.
func limit(cfg *pgx.ConnConfig, after time.Duration) {
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wire{Conn: c, limit: after}, nil
	}
}

// wire is a connection on which every read and write ends after a time, and sooner if its user has set a deadline. Once the server was silent for so long
// it stays so: pgx reads a second time, and says what it is told then.
type wire struct {
	net.Conn
	limit time.Duration

	mu          sync.Mutex
	read, write time.Time // what the user has set; the zero time is none
	gone        bool
}

// silent is a net.Error.
type silent time.Duration

func (s silent) Error() string {
	return fmt.Sprintf("the server said nothing for %v", time.Duration(s))
}

// Timeout implements net.Error.
func (silent) Timeout() bool { return true }

// Temporary implements net.Error.
func (silent) Temporary() bool { return false }

// Read implements net.Conn.
func (w *wire) Read(data []byte) (int, error) {
	if err := w.set(w.Conn.SetReadDeadline, &w.read); err != nil {
		return 0, err
	}
	n, err := w.Conn.Read(data)
	return n, w.late(err, &w.read)
}

// Write implements net.Conn.
func (w *wire) Write(data []byte) (int, error) {
	if err := w.set(w.Conn.SetWriteDeadline, &w.write); err != nil {
		return 0, err
	}
	n, err := w.Conn.Write(data)
	return n, w.late(err, &w.write)
}

// set begins a wait, which a deadline of the user's that comes meanwhile cuts short.
func (w *wire) set(deadline func(time.Time) error, own *time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return silent(w.limit)
	}
	return deadline(w.until(*own))
}

// until is when a wait that begins now ends.
func (w *wire) until(own time.Time) time.Time {
	end := time.Now().Add(w.limit)
	if !own.IsZero() && own.Before(end) {
		return own
	}
	return end
}

// late says what an error means that is not of the user's deadline.
func (w *wire) late(err error, own *time.Time) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !own.IsZero() && !time.Now().Before(*own) {
		return err
	}
	w.gone = true
	return silent(w.limit)
}

// SetDeadline implements net.Conn.
func (w *wire) SetDeadline(at time.Time) error {
	return errors.Join(w.SetReadDeadline(at), w.SetWriteDeadline(at))
}

// SetReadDeadline implements net.Conn.
func (w *wire) SetReadDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = at
	return w.Conn.SetReadDeadline(w.until(at))
}

// SetWriteDeadline implements net.Conn.
func (w *wire) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write = at
	return w.Conn.SetWriteDeadline(w.until(at))
}
