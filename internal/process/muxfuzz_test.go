package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// Whatever a worker writes, each question gets one answer or one error, and the mux can be asked again.
func FuzzMux(f *testing.F) {
	for _, seed := range []string{
		`{"id": 2, "text": "b"}` + "\n" + `{"id": 1, "text": "a"}` + "\n", `{"id": 1}` + "\n" + `{"id": 1}` + "\n",
		`{"id": 9}` + "\n", "hello\n",
		`{"id": 1, "loaded": true}` + "\n" + `{"id": 1, "loaded": true, "error": {}}` + "\n",
		`{"id": 1, "error": {"kind": "a", "reason": "b\nc"}}` + "\n",
		`{"id": 2, "text": 7}` + "\n", `{"id": -1}` + "\n", "null\n", `[]`, "\n\n",
		`{"id": 1, "error": null, "text": "a"}` + "\n" + `{"id": 2`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m := NewMux(Program{}, 1, 2, Lines{Most: 1 << 10})
		first := true
		m.start = func() (*Process, error) {
			own, other := net.Pipe()
			go talk(other, first, text)
			first = false
			return &Process{In: own, Out: own, conn: own, ended: func() error { return nil }}, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		answers := make(chan error, 2)
		for range 2 {
			go func() {
				answers <- m.Ask(ctx, Question{Do: "echo", Body: textOf{}, About: "it", Loading: time.Minute}, &textOf{})
			}()
		}
		for range 2 {
			err := <-answers
			if errors.Is(err, context.DeadlineExceeded) {
				t.Fatal("a question has no answer")
			}
			var told *ToldError
			isLong := err != nil && !errors.As(err, &told) && strings.ContainsAny(err.Error(), "\n\r")
			if isLong || err == nil && !strings.Contains(text, ":") {
				t.Errorf("%v", err)
			}
		}
		var again textOf
		err := m.Ask(ctx, Question{Do: "echo", Body: textOf{}}, &again)
		if errors.Is(err, ErrEnded) { // of the worker that has written all of it
			err = m.Ask(ctx, Question{Do: "echo", Body: textOf{}}, &again)
		}
		if err != nil || again.Text != "again" {
			t.Errorf("asked again: %q, %v", again.Text, err)
		}
		if err := m.Close(); err != nil || len(m.slots) != 0 {
			t.Errorf("%v, and %d questions are in flight", err, len(m.slots))
		}
	})
}

// talk reads two questions, says a text and ends. The one who is started after it answers.
func talk(conn net.Conn, isFirst bool, text string) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	if isFirst {
		lines.Scan()
		lines.Scan()
		_, _ = conn.Write([]byte(text))
		return
	}
	for lines.Scan() {
		var id int
		if n, err := fmt.Sscanf(lines.Text(), `{"id":%d`, &id); n == 1 && err == nil {
			fmt.Fprintf(conn, `{"id": %d, "text": "again"}`+"\n", id)
		}
	}
}
