package web

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestAuthorizedWantsTheExactToken(t *testing.T) {
	for header, want := range map[string]bool{
		"Bearer secret": true, "": false, "secret": false, "Bearer ": false, "Bearer secre": false, "Bearer secrets": false,
		"bearer secret": false, "Basic secret": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		if got := Authorized(r, "secret"); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

func TestGuardRefusesForeignPages(t *testing.T) {
	for _, c := range []struct {
		token, host, origin string
		status              int
	}{
		{"", "127.0.0.1:80", "", 200},
		{"", "localhost", "", 200},
		{"", "LocalHost:80", "", 200},
		{"", "[::1]", "", 200}, // browsers omit port 80
		{"", "localhost.evil.example", "", 403},
		{"", "[127.0.0.1].evil.example", "", 403},
		{"", "[::1]:80", "http://[::1]:80", 200},
		{"", "evil.example:80", "", 403},
		{"", "10.0.0.1:80", "", 403},
		{"", "localhost", "http://evil.example", 403},
		{"secret", "trainer.example", "", 200},
		{"secret", "trainer.example", "http://evil.example", 403},
	} {
		h := Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), c.token,
			func(w http.ResponseWriter, status int, err error) { WriteJSON(w, status, err.Error()) })
		r := httptest.NewRequest("POST", "/", nil)
		if r.Host = c.host; c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%+v: status %d: %s", c, w.Code, w.Body)
		}
	}
}

// A body that has no form in JSON is a failure of the server, and the client gets no half reply.
func TestWriteJSONEncodesBeforeTheStatus(t *testing.T) {
	for _, c := range []struct {
		body   any
		status int
		want   string
	}{
		{map[string]int{"n": 1}, 201, "{\"n\":1}\n"},
		{map[string]string{"content": "<think>&"}, 201, "{\"content\":\"<think>&\"}\n"},
		{[]float64{1, math.NaN()}, 500, "json: unsupported value: NaN\n"},
	} {
		w := httptest.NewRecorder()
		WriteJSON(w, 201, c.body)
		if w.Code != c.status || w.Body.String() != c.want {
			t.Errorf("%v: status %d, body %q; want %d, %q", c.body, w.Code, w.Body, c.status, c.want)
		}
	}
}

func TestListenDefaultsToLoopback(t *testing.T) {
	l, err := Listen(t.Context(), ":0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if at := l.Addr().(*net.TCPAddr); !at.IP.IsLoopback() {
		t.Errorf("listens on %v", at)
	}
}

// A request in flight may finish within the grace period. Without one the server aborts it.
func TestServeGivesRequestsTheirGrace(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Minute} {
		l, err := Listen(t.Context(), "127.0.0.1:0", "")
		if err != nil {
			t.Fatal(err)
		}
		begun, release := make(chan struct{}), make(chan struct{})
		s := Server{Grace: grace, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(begun)
			<-release
			_, _ = io.WriteString(w, "whole") // the client complains
		})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, l) }()
		got := make(chan string, 1)
		go func() {
			resp, err := http.Get("http://" + l.Addr().String())
			if err != nil {
				got <- "cut off"
				return
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body) // an aborted reply is not the wanted text
			got <- string(text)
		}()
		<-begun
		cancel()
		want := "whole"
		if grace == 0 {
			want = "cut off"
			if text := <-got; text != want {
				t.Errorf("without grace the client gets %q", text)
			}
			close(release)
		} else {
			close(release)
			if text := <-got; text != want {
				t.Errorf("with grace the client gets %q", text)
			}
		}
		if err := <-ended; err != nil {
			t.Errorf("grace %v: %v", grace, err)
		}
	}
}

// Other machines get time to guess a token. On the loopback interface a server needs none.
func TestServersThatOthersReachNeedALongToken(t *testing.T) {
	long := strings.Repeat("x", minToken)
	for _, c := range []struct{ address, token, want string }{
		{"127.0.0.1:0", "", ""},
		{"localhost", "", ""},
		{"[::1]:0", "1", ""},
		{"0.0.0.0:0", long, ""},
		{"10.0.0.1", long, ""},
		{"0.0.0.0:0", "", "there is no token"},
		{"10.0.0.1", "", "there is no token"},
		{"[::]:0", "1", "a token of 1 characters: it needs at least 16"},
		{"trainer.example:80", long[1:], "a token of 15 characters"},
	} {
		if err := CheckToken(c.address, c.token); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if l, err := Listen(t.Context(), "0.0.0.0:0", "short"); err == nil {
		l.Close()
		t.Error("listens with a short token")
	}
}

// A body may be too long, or too slow to come.
func TestBodiesHaveLimits(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
	for _, c := range []struct {
		request string
		read    time.Duration
		status  string
	}{
		{post + "4\r\n\r\nbody", time.Minute, "200"},
		{post + "5\r\n\r\nbody!", time.Minute, "413"},
		{post + "4\r\n\r\nbod", time.Second, "408"},
	} {
		t.Run(c.status, func(t *testing.T) {
			t.Parallel()
			l, err := Listen(t.Context(), "127.0.0.1:0", "")
			if err != nil {
				t.Fatal(err)
			}
			s := Server{Read: c.read, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, status, _ := Body(w, r, 4)
				WriteJSON(w, status, nil)
			})}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ctx, l) }()
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			reply := make([]byte, 12)
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, reply); err != nil || string(reply[9:]) != c.status {
				t.Errorf("%q: %q, %v; want %s", c.request, reply, err, c.status)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// A client learns when to ask again.
func TestRefusalsThatMayPassSayWhenToRetry(t *testing.T) {
	for status, want := range map[int]string{429: "1", 503: "1", 200: "", 400: "", 500: ""} {
		w := httptest.NewRecorder()
		WriteJSON(w, status, nil)
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("status %d: Retry-After %q, want %q", status, got, want)
		}
	}
}

// Bodies of unknown length that arrive at the same time share a bounded memory, and small ones
// always find room.
func TestArrivingBodiesShareAMemory(t *testing.T) {
	m := newRoom(100, time.Minute)
	body := func(bytes int64) (int, error) {
		r := httptest.NewRequest(http.MethodPost, "/", io.LimitReader(endless{}, bytes))
		_, status, err := m.read(httptest.NewRecorder(), r, 1<<20)
		return status, err
	}
	if !m.taken.TryAcquire(90) { // others
		t.Fatal("no room")
	}
	for bytes, want := range map[int64]int{0: 200, smallBody: 200, smallBody + 10: 200, smallBody + 11: 503, 1 << 20: 503} {
		if status, err := body(bytes); status != want || (err == nil) != (want == 200) {
			t.Errorf("a body of %d bytes: %d, %v; want %d", bytes, status, err, want)
		}
	}
	if !m.taken.TryAcquire(10) {
		t.Error("bytes count after the last body")
	}
}

// A body that promises its length arrives whole, also one that is larger than the room, and waits
// for its turn. A promise that is too large, or waits too long, is refused with a status of its own.
func TestPromisedBodiesTakeTurns(t *testing.T) {
	m := newRoom(1<<20, time.Minute)
	read := func(r io.Reader, length, limit int64) (int, error) {
		request := httptest.NewRequest(http.MethodPost, "/", r)
		request.ContentLength = length
		data, status, err := m.read(httptest.NewRecorder(), request, limit)
		if err == nil && int64(len(data)) != length {
			t.Errorf("%d bytes of %d", len(data), length)
		}
		return status, err
	}
	const size = 700 << 10 // two of them do not fit
	first, done := make(chan struct{}), make(chan int, 4)
	pipe, into := io.Pipe()
	go func() {
		status, _ := read(pipe, size, 1<<30)
		done <- status
	}()
	go func() { // half of it has arrived when others come
		if _, err := io.Copy(into, io.LimitReader(endless{}, size/2)); err != nil {
			t.Error(err)
		}
		close(first)
	}()
	<-first
	for _, length := range []int64{size, 3 << 20, size} {
		go func() {
			status, _ := read(io.LimitReader(endless{}, length), length, 1<<30)
			done <- status
		}()
	}
	if status, err := read(io.LimitReader(endless{}, smallBody), smallBody, 1<<30); status != 200 {
		t.Errorf("a small body gets %d, %v", status, err)
	}
	if _, err := io.Copy(into, io.LimitReader(endless{}, size/2)); err != nil {
		t.Error(err)
	}
	into.Close()
	for range cap(done) {
		if status := <-done; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	if status, err := read(io.LimitReader(endless{}, 11), 11, 10); status != 413 {
		t.Errorf("a body of 11 bytes where 10 are allowed gets %d, %v", status, err)
	}
	m.wait = time.Millisecond
	if !m.taken.TryAcquire(m.size) {
		t.Fatal("bytes count after the last body")
	}
	if status, err := read(io.LimitReader(endless{}, size), size, 1<<30); status != 503 {
		t.Errorf("a body without room gets %d, %v", status, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
