package studio

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

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
	f.Add("r", "a,b", cursor{"": {Offset: 5, Hash: 7, Records: 1}}.String(), "1", "1/t/0/0")
	f.Add("~", "", "e30", "-1", "..")
	f.Add("../r", ",", "x", "99999999999999999999", "\x00")
	f.Fuzz(func(t *testing.T, run, names, since, step, id string) {
		query := "?" + url.Values{"names": {names}, "since": {since}, "from": {since}, "to": {step}, "width": {names}, "limit": {step}}.Encode()
		for _, path := range []string{"", "/names", "/metrics", "/steps", "/spans", "/failures", "/steps/" + url.PathEscape(step) + "/rollouts",
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
