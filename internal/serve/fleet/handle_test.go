package fleet

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/weights"
)

// FuzzHandler sends requests that no explorer sends. The server refuses them, and never fails.
func FuzzHandler(f *testing.F) {
	f.Add("PUT", "/v1/explorers/left/deliveries/1", []byte("TGD1\x00\x00\xff\xff\xff\xff\x0f"))
	f.Add("POST", "/v1/explorers/left", []byte(`{"protocol":2,"sync_style":"fixed","session":"","share":{"part":1,"of":1}}`))
	f.Add("POST", "/v1/explorers/left/pause", []byte(`{"until":"x"}`))
	f.Add("GET", "/v1/versions?min=x", []byte(nil))
	f.Add("GET", "/v1/versions/0/../../../etc/passwd", []byte(nil))
	f.Add("GET", "/v1/versions/0/model", []byte(nil))
	dir := f.TempDir()
	s := &Server{
		Buffer: buffer.NewQueue(10, 1<<20, nil), Weights: &weights.Shelf{Dir: dir}, Style: fixed, Token: token, Dir: dir, Lease: time.Millisecond,
		Say: func(string) {}, Note: func(string) {},
	}
	s.Weights.End()
	if err := s.Open(f.Context()); err != nil {
		f.Fatal(err)
	}
	if _, err := s.join(f.Context(), "left", joining{Protocol: protocol, Style: fixed, Session: "s", Share: Share{1, 1}}); err != nil {
		f.Fatal(err)
	}
	handler := s.Handler(f.Context())
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://trainer", bytes.NewReader(body))
		if err != nil {
			return
		}
		req.URL.Path = path
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set(sessionHeader, "s")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		if w.Code >= 500 {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	})
}

// The server refuses requests without the token.
func TestToken(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	for _, authorization := range []string{"", token, "Bearer ", "Bearer " + token + "x", "bearer " + token} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tr.web.URL+"/v1/versions?min=0", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", authorization)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %s", authorization, resp.Status)
		}
	}
}

// Deliveries have numbers: the buffer has a delivery once even if it arrives twice, and no number
// may be missing.
func TestDeliveriesAreNumbered(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	c := client("left", at(tr), time.Minute)
	if _, _, err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := trinity.Delivery{Groups: group(1, 1), Cursor: []byte(`7`)}
	if err := c.Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	c.delivered++
	mention(t, c.Put(t.Context(), d), "delivery 3 of explorer left comes after delivery 1")
	err := c.request(t.Context(), address{URL: tr.web.URL, Token: token}, http.MethodPut, c.path("/deliveries/2"), []byte("nonsense"), nil)
	mention(t, err, "not understood: not a delivery")
	tr.known.byName["left"].gone = true
	_, cursor, err := client("left", at(tr), time.Minute).Resume(t.Context())
	if err != nil || string(cursor) != "7" {
		t.Errorf("resumed at %s, %v, want 7", cursor, err)
	}
}

// A request is one JSON value. The server refuses text after it.
func TestReadRefusesTrailingText(t *testing.T) {
	for body, ok := range map[string]bool{`{}`: true, "{}\n": true, `{} {}`: false, `{}x`: false, `{`: false} {
		err := read(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), &struct{}{})
		if (err == nil) != ok || err != nil && !errors.Is(err, errBad) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// At finds the token in a URL. String and the errors do not show the token.
func TestPlaces(t *testing.T) {
	for join, want := range map[string]string{
		"http://10.0.0.7:81":        "env",
		"https://:secret@host:1/x":  "secret",
		"http://secret@host:1":      "secret",
		"http://user:secret@host:1": "secret",
	} {
		p, err := At(join, "env")
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.address()
		if err != nil || a.Token != want || bytes.Contains([]byte(p.String()), []byte("secret")) {
			t.Errorf("%s: %v, %v", join, a, err)
		}
	}
	for _, join := range []string{"", "host:81", "ftp://host", "http://:secret@", "http://%zz"} {
		if p, err := At(join, "env"); err == nil {
			t.Errorf("%q: %v", join, p)
		} else if bytes.Contains([]byte(err.Error()), []byte("secret")) {
			t.Error(err)
		}
	}
	if _, err := At("http://host:1", ""); err == nil {
		t.Error("no token, no error")
	}
}

// A proxy may serve the trainer below a path. The error names a URL at which no trainer answers.
func TestURLWithAPath(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	mux := http.NewServeMux()
	mux.Handle("/prefix/", http.StripPrefix("/prefix", tr.Handler(t.Context())))
	mux.HandleFunc("/empty/", func(http.ResponseWriter, *http.Request) {})
	proxy := httptest.NewServer(mux)
	defer proxy.Close()
	resume := func(path string) error {
		p, err := At(proxy.URL+path, token)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = client("left", p, time.Minute).Resume(t.Context())
		return err
	}
	if err := resume("/prefix/"); err != nil {
		t.Error(err)
	}
	mention(t, resume("/empty"),
		"trainer at "+proxy.URL+"/empty: its reply of 0 bytes to POST /v1/explorers/left is not the JSON of a trainer")
}

// A request that promises a large delivery takes memory only for what it sends.
func TestPromisedDeliveryTakesNoMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	req := httptest.NewRequest(http.MethodPut, "/", strings.NewReader("TGD1"))
	req.ContentLength = maxDelivery
	if _, err := readDelivery(httptest.NewRecorder(), req); !errors.Is(err, errBad) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes were allocated for 4", took)
	}
	if _, err := readDelivery(httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "/", nil)); err == nil {
		t.Error("an empty delivery was accepted")
	}
}

// The name of an explorer becomes part of file names, and of lines for people.
func TestNamesOfExplorersArePlain(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	for name, want := range map[string]bool{
		"left-2": true, "größer": true, "a\x00b": false, "a\nb": false, "\x1b[31m": false, "..": false, "a/b": false, "": false,
	} {
		_, err := tr.join(t.Context(), name, joining{Protocol: protocol, Style: fixed, Session: name, Share: Share{1, 1}})
		if got := !errors.Is(err, errBad); got != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}
