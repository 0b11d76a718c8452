package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// dialing is how long a connection to a process of this machine may take.
const dialing = 10 * time.Second

// DialMux returns a mux whose one copy is a process that is there already and listens on a loopback address. It gets
// form.First, which names a token, before the first question. The end of the connection is the end of the process.
func DialMux(address string, atOnce int, form Lines) (*Mux, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("%s is no loopback address", host)
	}
	m := NewMux(Program{}, 1, atOnce, form)
	ctx, cancel := context.WithCancel(context.Background())
	kill := m.kill
	m.kill = func() { cancel(); kill() }
	m.start = func() (*Process, error) { return dial(ctx, address) }
	return m, nil
}

// dial returns a process at the other end of a connection, which the end of ctx closes.
func dial(ctx context.Context, address string) (*Process, error) {
	to := net.Dialer{Timeout: dialing}
	conn, err := to.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, errors.Join(ErrEnded, err)
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	return &Process{In: half{conn.(*net.TCPConn)}, Out: conn, conn: conn, ended: func() error { return context.Cause(ctx) }}, nil
}

// half is the side of a connection that is written to. Its end leaves the other side open for answers.
type half struct{ *net.TCPConn }

// Close implements io.Closer.
func (h half) Close() error { return h.CloseWrite() }
