package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/lib/pq"
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

// connector opens connections to PostgreSQL that wait for the server for as long as its limit, and hardly at all
// when their context ends. The driver alone would wait for an answer then.
type connector struct {
	cfg   pq.Config
	limit time.Duration
}

// Driver implements [driver.Connector].
func (*connector) Driver() driver.Driver { return &pq.Driver{} }

// Connect implements [driver.Connector].
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	one, err := pq.NewConnectorConfig(c.cfg)
	if err != nil {
		return nil, err
	}
	d := &dialer{limit: c.limit}
	one.Dialer(d)
	stop := context.AfterFunc(ctx, d.hurry)
	defer stop()
	made, err := one.Connect(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.connected = true
	return &connection{made.(driverConn), d}, nil
}

// driverConn is what the connections of PostgreSQL's driver do.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// connection is a connection that begins a transaction no longer than its context lasts.
type connection struct {
	driverConn
	dialer *dialer
}

// BeginTx implements [driver.ConnBeginTx].
func (c *connection) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	stop := context.AfterFunc(ctx, c.dialer.hurry)
	defer stop()
	return c.driverConn.BeginTx(ctx, o)
}

// dialer dials for one connection.
type dialer struct {
	net.Dialer
	limit time.Duration

	mu        sync.Mutex
	wire      *wire // of the newest try
	connected bool
}

// DialContext implements [pq.DialerContext]. The driver dials again when a context has ended, to tell the server.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	again := d.connected
	d.mu.Unlock()
	if again {
		d.hurry()
	}
	c, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: c, limit: d.limit}
	if !again {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wire = w
	}
	return w, nil
}

// DialTimeout implements [pq.Dialer].
func (d *dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// farewell is how long a server may take to answer after the context of a request has ended.
const farewell = time.Second

// hurry ends a wait for the server soon.
func (d *dialer) hurry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wire != nil {
		_ = d.wire.SetDeadline(time.Now().Add(farewell)) // fails on a closed connection alone
	}
}

// wire is a connection on which every read and write ends after a limit, or at the user's deadline
// if that is sooner. After a timeout every further call fails at once.
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
