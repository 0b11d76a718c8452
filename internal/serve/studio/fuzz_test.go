package studio

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/serve/annotate"
	"github.com/trinity-go/trinity/model/renderer"
)

const nowhere = "/there/is/no/trinity" // with which no run starts

// fuzzed serves a run with data, and asks it. An answer must not say that the studio is at fault.
func fuzzed(f *testing.F) (ask func(t *testing.T, method, path, body string)) {
	dir := f.TempDir()
	for name, text := range map[string]string{
		"r/monitor/metrics.jsonl": line(1, "trainer", `"a":1`), "r/monitor/config.yaml": small,
		"q/monitor/metrics.jsonl": line(1, "trainer", `"a":2`),
		"d.jsonl":                 `{"prompt":"p","response":"a"}` + "\n{\n" + `{"prompt":"<p>","response":"b"}` + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			f.Fatal(err)
		}
	}
	h := (&Server{
		Dir: dir, Control: "secret", Annotator: annotate.Shelf{Most: 1 << 20}, Program: []string{nowhere}, Every: time.Millisecond,
		Plan: func(cfg *config.Config) (*config.Plan, error) { return cfg.Plan(config.Facts{}) },
		Advise: func(_ string, load func(...string) (*config.Config, error)) (any, error) {
			return load("seed=1")
		},
		Data: Data{
			Sources: func(*config.Settled, string) []dataset.Entry {
				format := dataset.Format{TaskFormat: trinity.TaskFormat{PromptKey: "prompt", ResponseKey: "response"}, PromptType: "plaintext"}
				return []dataset.Entry{{Key: "k", Name: "k", Kind: "sft", Path: filepath.Join(dir, "d.jsonl"), Format: format},
					{Key: "e", Name: "e", Kind: "experience", Path: filepath.Join(dir, "d.jsonl")}}
			},
			Text: func(*config.Settled) (*renderer.Renderer, error) { return nil, errors.New("the model is elsewhere") },
		},
		Talker: Talker{
			Models: func(string) ([]Model, error) { return []Model{{Name: "m", Kind: "model", Path: "m"}}, nil },
			Plan:   func(string, int) (ModelPlan, error) { return ModelPlan{}, errors.New("there is no model") },
		},
	}).Handler()
	return func(t *testing.T, method, path, body string) {
		ctx, end := context.WithCancel(t.Context())
		if strings.Contains(path, "/live?") {
			end() // it tells what there is, and ends
		}
		defer end()
		r, err := http.NewRequestWithContext(ctx, method, "http://localhost/api/v1/"+path, strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("Authorization", "Bearer secret")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 && !strings.Contains(w.Body.String(), nowhere) {
			t.Errorf("%s %s: status %d: %s", method, r.URL, w.Code, w.Body)
		}
	}
}

// No parameter breaks the API.
func FuzzParameters(f *testing.F) {
	ask := fuzzed(f)
	f.Add("r", "a,b", cursor{"": {Offset: 5, Hash: 7, Records: 1}}.String(), "1", "1/t/0/0")
	f.Add("~", "", "e30", "-1", "..")
	f.Add("../r", ",", "x", "99999999999999999999", "\x00")
	f.Add("r", "a", "0.0.1", "1,9", "k")
	f.Add("q", "p", "0", "NaN,Infinity", "k")
	f.Fuzz(func(t *testing.T, run, names, since, step, id string) {
		query := "?" + url.Values{"names": {names}, "since": {since}, "from": {since}, "to": {step}, "width": {names},
			"limit": {step}, "q": {names}}.Encode()
		for _, path := range []string{"", "/names", "/metrics", "/live", "/config", "/log", "/models", "/steps", "/spans", "/failures",
			"/steps/" + url.PathEscape(step) + "/rollouts", "/steps/" + url.PathEscape(step) + "/rollouts/" + url.PathEscape(id)} {
			ask(t, http.MethodGet, "runs/"+url.PathEscape(run)+path+query, "")
		}
		query = "?" + url.Values{"run": {run, "r"}, "below": {run}, "metric": {names}, "source": {id}, "at": {since}, "n": {step}, "q": {names},
			"prompt": {step}, "response": {names}}.Encode()
		for _, path := range []string{"runs", "compare", "groups", "tasks", "data", "data/rows", "data/lengths", "data/row"} {
			ask(t, http.MethodGet, path+query, "")
		}
	})
}

// No body breaks the API.
func FuzzBodies(f *testing.F) {
	ask := fuzzed(f)
	f.Add("r", `{"text":"name: [a","overrides":["seed=1","x"]}`)
	f.Add("q", `{"run":"r","overrides":["name=b"]}`)
	f.Add("~", `{"run":"r","source":"e"}`)
	f.Add("..", `{"run":"r","model":"m","length":-1}`)
	f.Add("r", `{"now":true}`)
	f.Add("r", `null`)
	f.Fuzz(func(t *testing.T, id, body string) {
		of := url.PathEscape(id)
		for _, path := range []string{"config/check", "config/plan", "annotations", "runs", "runs/" + of + "/stop", "runs/" + of + "/resume",
			"runs/" + of + "/advice", "talk", "talk/" + of + "/chat", "talk/" + of + "/end"} {
			ask(t, http.MethodPost, path, body)
		}
	})
}
