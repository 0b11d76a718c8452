//go:build unix

package server

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// echo serves connections that repeat what they get, and returns their server.
func echo(t *testing.T, greeting string) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.WriteString(c, greeting) // the test reports what is missing
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	s := &Server{port: l.Addr().(*net.TCPAddr).Port}
	s.URL = "db://" + s.Address() + "/x"
	return s
}

func dial(t *testing.T, w *Wire) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(w.URL, "db://"), "/x"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a text and returns what comes back before the deadline.
func ask(t *testing.T, c net.Conn, deadline time.Duration) (string, error) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "ping"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4)
	n, err := io.ReadFull(c, answer)
	return string(answer[:n]), err
}

// After Cut the connections of before stay open and silent. Later ones work.
func TestCutSilencesPresentConnections(t *testing.T) {
	w := Wired(t, echo(t, ""))
	before := dial(t, w)
	if got, err := ask(t, before, time.Minute); got != "ping" || err != nil {
		t.Fatalf("before: got %q, %v", got, err)
	}
	w.Cut()
	if got, err := ask(t, before, 50*time.Millisecond); got != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after: got %q, %v, want silence", got, err)
	}
	if got, err := ask(t, dial(t, w), time.Minute); got != "ping" || err != nil {
		t.Errorf("a new connection: got %q, %v", got, err)
	}
	if n := w.Dials(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// A server is ready when its answer begins as expected. Some servers refuse first.
func TestAnswersTellsWhetherAServerIsReady(t *testing.T) {
	for _, c := range []struct {
		greeting, hello string
		ready           []string
		want            bool
	}{
		{"R, password", "", []string{"R"}, true},
		{"E, starting", "", []string{"R"}, false},
		{"", "hello", []string{"no", "hello"}, true},
	} {
		s := echo(t, c.greeting)
		s.hello, s.ready = c.hello, c.ready
		if got := s.answers(); got != c.want {
			t.Errorf("greeting %q: ready is %v, want %v", c.greeting, got, c.want)
		}
	}
	if s := (&Server{port: freePort(t), ready: []string{""}}); s.answers() || s.listens() {
		t.Error("a server that does not listen is ready")
	}
}
