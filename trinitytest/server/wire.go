//go:build unix

package server

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// Wire is a network between a server and its clients that can fall silent: connections stay open,
// but nothing arrives.
type Wire struct {
	URL string // of the server through this wire

	mu    sync.Mutex
	cut   chan struct{} // closed when the present connections fall silent
	dials int
}

// Wired puts a wire in front of a server until the end of the test.
func Wired(t *testing.T, s *Server) *Wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	w := &Wire{URL: strings.Replace(s.URL, s.Address(), l.Addr().String(), 1), cut: make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.connect(c, s.Address())
		}
	}()
	return w
}

func (w *Wire) connect(client net.Conn, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		client.Close()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dials++
	go pass(server, client, w.cut)
	go pass(client, server, w.cut)
}

// pass copies data until the wire is cut.
func pass(to, from net.Conn, cut <-chan struct{}) {
	data := make([]byte, 1<<16)
	for {
		n, err := from.Read(data)
		select {
		case <-cut: // the client must not get this data
			if err != nil {
				from.Close()
				return
			}
			continue
		default:
		}
		if err != nil {
			to.Close()
			from.Close()
			return
		}
		if _, err := to.Write(data[:n]); err != nil {
			from.Close()
			return
		}
	}
}

// Cut silences all present connections. Later connections work.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.cut)
	w.cut = make(chan struct{})
}

// Dials returns the number of connections so far.
func (w *Wire) Dials() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials
}
