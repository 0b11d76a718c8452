package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
)

// A mux asks a process that listens on a loopback address. It says a token first. The end of the connection is the end
// of the process, and the next question connects again.
func TestDialMux(t *testing.T) {
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { door.Close() })
	tokens := make(chan string, 2)
	go func() {
		for {
			conn, err := door.Accept()
			if err != nil {
				return
			}
			lines := bufio.NewScanner(conn)
			for first := true; lines.Scan(); first = false {
				var q struct {
					ID       uint64
					Do, Text string
				}
				switch {
				case first:
					tokens <- lines.Text()
				case json.Unmarshal(lines.Bytes(), &q) != nil:
					t.Errorf("the question %q", lines.Text())
				case q.Do == "end":
					conn.Close()
				default:
					fmt.Fprintf(conn, `{"id": %d, "text": %q}`+"\n", q.ID, q.Text)
				}
			}
			conn.Close()
		}
	}()
	m, err := DialMux(door.Addr().String(), 4, Lines{Most: 1 << 20, First: []byte("secret\n")})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(do, text string) (string, error) {
		var answer textOf
		err := m.Ask(t.Context(), Question{Do: do, Body: textOf{text}}, &answer)
		return answer.Text, err
	}
	for range 2 {
		if got, err := ask("echo", "good"); err != nil || got != "good" {
			t.Errorf("%q, %v", got, err)
		}
		if got := <-tokens; got != "secret" {
			t.Errorf("it said %q first", got)
		}
		if _, err := ask("end", ""); !errors.Is(err, ErrEnded) {
			t.Error(err)
		}
	}
	door.Close()
	if _, err := ask("echo", "nobody"); !errors.Is(err, ErrEnded) {
		t.Errorf("nobody listens: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// The address is one of this machine that no other reaches.
func TestDialMuxTakesLoopbackAlone(t *testing.T) {
	for _, address := range []string{"0.0.0.0:1", "192.0.2.1:80", "localhost:80", "127.0.0.1", ""} {
		if _, err := DialMux(address, 1, Lines{}); err == nil {
			t.Errorf("%q is taken", address)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
