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

// silence is how long a server may leave a request without an answer. A network that drops packets
// reports no error.
const silence = 30 * time.Second

// patience returns how long this database may be silent.
func (o Options) patience() time.Duration {
	if o.Silence > 0 {
		return o.Silence
	}
	return silence
}

// limit bounds how long the connections of a configuration wait for the server.
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

// wire is a connection on which every read and write ends after a limit, or at the user's deadline
// if that is sooner. After a timeout every further call fails at once, because pgx reads a second
// time and reports that error.
type wire struct {
	net.Conn
	limit time.Duration

	mu          sync.Mutex
	read, write time.Time // the user's deadlines; the zero time is none
	gone        bool
}

// silent is the net.Error of a server that did not answer.
type silent time.Duration

func (s silent) Error() string {
	return fmt.Sprintf("the server was silent for %v", time.Duration(s))
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

// set begins a wait: it sets the earlier of the limit and the user's deadline.
func (w *wire) set(deadline func(time.Time) error, own *time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return silent(w.limit)
	}
	return deadline(w.until(*own))
}

// until returns the end of a wait that begins now.
func (w *wire) until(own time.Time) time.Time {
	end := time.Now().Add(w.limit)
	if !own.IsZero() && own.Before(end) {
		return own
	}
	return end
}

// late returns silent for a timeout that is not the user's deadline, else err.
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
