package studio

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// listener reads the live events of the run r.
type listener struct {
	body io.Reader
	seen strings.Builder
}

func listen(t *testing.T, s *httptest.Server) *listener {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/runs/r/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &listener{body: resp.Body}
}

// until reads until a text has come.
func (l *listener) until(t *testing.T, want string) {
	t.Helper()
	for !strings.Contains(l.seen.String(), want) {
		l.read(t)
	}
}

// read reads a byte.
func (l *listener) read(t *testing.T) {
	t.Helper()
	buf := make([]byte, 1)
	if _, err := l.body.Read(buf); err != nil {
		t.Fatalf("%v after %q", err, l.seen.String())
	}
	l.seen.Write(buf)
}

// A live page hears of each record and of the run's state.
func TestLive(t *testing.T) {
	dir, s := site(t, "")
	path := put(t, dir, "r/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	l := listen(t, s)
	l.until(t, ": the studio is here")
	if text := l.seen.String(); strings.Contains(text, "event: step") || !strings.HasPrefix(text, "event: state\ndata: {\"id\":\"r\"") {
		t.Errorf("%q", text)
	}
	add(t, path, line(2, "trainer", `"a":2`)+line(2, "explorer", `"a":2`))
	l.until(t, `event: step`+"\n"+`data: {"step":2,"role":"trainer","cursor":"`)
	l.until(t, `event: step`+"\n"+`data: {"step":2,"role":"explorer","cursor":"`)
	put(t, dir, "r/monitor/about.json",
		`{"name":"r","parts":{"trainer":{"status":"failed","error":"no room","time":"2001-09-09T01:46:45Z"}}}`)
	l.until(t, `"state":"failed","waiting":"","error":"no room"`)
	if err := os.RemoveAll(filepath.Join(dir, "r")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(l.body); err != nil {
		t.Errorf("the stream of a run that is gone: %v", err)
	}
}

// A new step of a long run with many metrics costs a page of four curves little.
func TestATickIsSmall(t *testing.T) {
	const most = 10 << 10 // bytes
	metrics := func(step int) string {
		text := fmt.Sprintf(`"rollout/reward/mean":%g`, 1/float64(step+1))
		for i := range 200 {
			text += fmt.Sprintf(`,"group/metric_%d":%d.%d`, i, step, i)
		}
		return text
	}
	var before strings.Builder
	for step := range 1000 {
		before.WriteString(line(step, "trainer", metrics(step)))
	}
	dir, s := site(t, "")
	path := put(t, dir, "r/monitor/metrics.jsonl", before.String())
	const names = "group/metric_1,group/metric_2,group/metric_3,rollout/reward/mean"
	cursor, _, _ := columnsOf(t, s, "r", names, "")
	l := listen(t, s)
	l.until(t, ": the studio is here")
	l.seen.Reset()
	add(t, path, line(1000, "trainer", metrics(1000)))
	l.until(t, "event: step")
	l.until(t, "event: state")
	for !strings.HasSuffix(l.seen.String(), "}\n\n") {
		l.read(t)
	}
	_, reply := get(t, s, "/api/v1/runs/r/metrics?names="+names+"&since="+cursor)
	if n := l.seen.Len() + len(reply); n > most {
		t.Errorf("a step sends %d bytes to a page: %.600s", n, l.seen.String())
	}
	if _, whole := get(t, s, "/api/v1/runs/r/metrics?names="+names); len(whole) < 2*most {
		t.Fatalf("the curves have only %d bytes", len(whole))
	}
}
