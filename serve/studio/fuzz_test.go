package studio

import (
	"bytes"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity/monitor"
)

// The fast reader finds in a line what the jsonl monitor's own finds.
func FuzzScan(f *testing.F) {
	for _, text := range []string{
		line(1, "trainer", `"a":1,"b":"NaN"`), line(2, "explorer", ``), line(3, "explorer", `"q\"":1e300`), "{}", "", "{\"step\":1}\n",
		`{"step":1,"role":"r","time":"2001-09-09T01:46:46.000Z","metrics":{"x":1},"samples":[{"prompt":"\"x\":2}"}]}` + "\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, wantErr := monitor.Parse(text)
		h, pairs, err := scan(text, nil)
		if wantErr != nil {
			return // a line that is no JSON may pass
		}
		if err != nil || h.step != want.Step || string(h.role) != want.Role || !want.Time.IsZero() && h.time != want.Time.UnixMilli() {
			t.Fatalf("%q: %+v, %v, want %+v", text, h, err, want)
		}
		found := map[string]float64{}
		for _, p := range pairs {
			v, ok := valueOf(p.value)
			if !ok {
				t.Fatalf("%q: %q is %q", text, p.name, p.value)
			}
			found[string(p.name)] = v
		}
		if !maps.EqualFunc(found, want.Metrics, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }) {
			t.Fatalf("%q: %v, want %v", text, found, want.Metrics)
		}
	})
}

// However a file grows, what is read piece by piece is what is read at once.
func FuzzColumns(f *testing.F) {
	f.Add([]byte(line(1, "trainer", `"a":1`)+line(2, "trainer", `"a":2,"b":3`)), uint(20))
	f.Add([]byte("x\n\n{}\n"+line(3, "t", `"a":"NaN"`)+"half"), uint(3))
	f.Fuzz(func(t *testing.T, text []byte, at uint) {
		dir := t.TempDir()
		path := filepath.Join(dir, monitor.File)
		whole, parts := newColumns(dir), newColumns(dir)
		for _, n := range []int{int(at % uint(len(text)+1)), len(text)} {
			if err := os.WriteFile(path, text[:n], 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := parts.update([]string{"a"}, mark{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := whole.update(nil, mark{}); err != nil {
			t.Fatal(err)
		}
		if _, err := whole.update([]string{"a"}, mark{}); err != nil {
			t.Fatal(err)
		}
		a, b := reading{files: []*columns{whole}, since: []int{0}}, reading{files: []*columns{parts}, since: []int{0}}
		p, q := a.points("a"), b.points("a")
		if len(p) != len(q) || whole.at != parts.at || whole.bad != parts.bad || len(whole.steps) != len(parts.steps) ||
			whole.at.Offset != int64(bytes.LastIndexByte(text, '\n')+1) {
			t.Fatalf("at once %v %+v, in parts %v %+v", p, whole, q, parts)
		}
		for i := range p {
			if p[i] != q[i] && !math.IsNaN(p[i].value) {
				t.Errorf("point %d: %v and %v", i, p[i], q[i])
			}
		}
	})
}

// No parameter breaks the API.
func FuzzParameters(f *testing.F) {
	dir := f.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "r", "monitor"), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "r/monitor/metrics.jsonl"), []byte(line(1, "trainer", `"a":1`)), 0o644); err != nil {
		f.Fatal(err)
	}
	h := (&Server{Dir: dir}).Handler()
	f.Add("r", "a,b", cursor{"": {5, 7, 1}}.String(), "1", "1/t/0/0")
	f.Add("~", "", "e30", "-1", "..")
	f.Add("../r", ",", "x", "99999999999999999999", "\x00")
	f.Fuzz(func(t *testing.T, run, names, since, step, id string) {
		query := "?" + url.Values{"names": {names}, "since": {since}, "from": {since}, "to": {step}, "width": {names}}.Encode()
		for _, path := range []string{"", "/names", "/metrics", "/steps", "/spans", "/steps/" + url.PathEscape(step) + "/rollouts",
			"/steps/" + url.PathEscape(step) + "/rollouts/" + url.PathEscape(id)} {
			w := httptest.NewRecorder()
			r, err := http.NewRequest(http.MethodGet, "http://localhost/api/v1/runs/"+url.PathEscape(run)+path+query, nil)
			if err != nil {
				return
			}
			h.ServeHTTP(w, r)
			if w.Code >= 500 {
				t.Errorf("%s: status %d: %s", r.URL, w.Code, w.Body)
			}
		}
	})
}
