package tinker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/wire/tinker"
	"github.com/trinity-go/trinity/trinitytest"
)

// letters writes the tokens of the tiny model.
type letters struct{ trinitytest.Chat }

func (letters) StopTokens() []int32 { return []int32{2} }

func (letters) Render([]trinity.Message, json.RawMessage, bool) ([]int32, error) { return first, nil }

// worded serves the tiny model in words, too.
func worded(t *testing.T, dir string) (c *client, words *httptest.Server) {
	t.Helper()
	c = serve(t, func(o *Options) {
		o.Dir, o.Bases[0].Text = dir, letters{}
		o.Made = func(owner string) []Made {
			dirs, _ := filepath.Glob(filepath.Join(dir, "*", "weights", "w"))
			if owner != "ann" || len(dirs) == 0 {
				return nil
			}
			return []Made{{Name: "ft:tiny::1", Base: "tiny", Dir: dirs[0]}, {Name: "ft:gone::1", Base: "gone"}} // one whose base is not served now
		}
	})
	w := c.server.Words()
	apis := map[string]http.Handler{}
	for _, api := range w.Servers() {
		apis[api.Name] = api.Endpoints()
	}
	words = httptest.NewServer(c.server.Guard(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		var asked struct{ Model string }
		data, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(data, &asked)
		r.Body = io.NopCloser(bytes.NewReader(data))
		api, err := w.Of(r, asked.Model)
		if err != nil {
			openai.Fail(out, err)
			return
		}
		apis[api.Name].ServeHTTP(out, r)
	}), func(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }))
	t.Cleanup(words.Close)
	return c, words
}

// ask asks in words.
func (c *client) ask(words *httptest.Server, path string, in object) (*http.Response, string) {
	c.t.Helper()
	body, _ := json.Marshal(in)
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, words.URL+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, string(out)
}

// scored returns the log-probabilities of the first sequence as a model of completions has them.
func (c *client) scored(words *httptest.Server, model string) []float32 {
	c.t.Helper()
	resp, text := c.ask(words, "/v1/completions", object{"model": model, "prompt": first, "echo": true, "logprobs": 0, "max_tokens": 0})
	var reply struct {
		Model   string
		Choices []struct {
			Logprobs struct {
				Of []*float32 `json:"token_logprobs"`
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil || resp.StatusCode != http.StatusOK || reply.Model != model {
		c.t.Fatalf("%d, %s", resp.StatusCode, text)
	}
	var of []float32
	for _, lp := range reply.Choices[0].Logprobs.Of[1:] {
		of = append(of, *lp)
	}
	return of
}

// A checkpoint answers requests in words by its path, with the trainer's bits: to the key that has it, and to others once it is
// published.
func TestCheckpointsAnswerInWords(t *testing.T) {
	dir := t.TempDir()
	c, words := worded(t, dir)
	ann, bob := c.as(add(t, dir, Key{Name: "ann"})), c.as(add(t, dir, Key{Name: "bob"}))
	id := ann.model(0)
	ann.send(request(id, 1, "cross_entropy", first, second))
	ann.must(ann.step(id, 2))
	forward := request(id, 3, "cross_entropy", first)
	forward.ForwardOnly = true
	want, _ := ann.output(ann.send(forward))
	sampler := ann.save(id, 4, "save_weights_for_sampler", "w", nil)
	training := ann.save(id, 5, "save_weights", "w", nil)
	for _, path := range []string{sampler, training, "ft:tiny::1"} {
		if got := ann.scored(words, path); !slices.Equal(got, want[0]) {
			t.Errorf("%s has %v, the trainer %v", path, got, want[0])
		}
	}
	if slices.Equal(bob.scored(words, "tiny"), want[0]) {
		t.Error("the base has the log-probabilities of the adapter")
	}
	chat := object{"model": sampler, "messages": []object{{"role": "user", "content": "hi"}}, "max_tokens": 3}
	for _, k := range []struct {
		who    *client
		status int
	}{{ann, 200}, {bob, 404}, {c, 401}} {
		if resp, text := k.who.ask(words, "/v1/chat/completions", chat); resp.StatusCode != k.status {
			t.Errorf("%d, %s", resp.StatusCode, text)
		}
	}
	const unknown = `"code":"model_not_found","message":"model: there is no checkpoint `
	if _, text := bob.ask(words, "/v1/chat/completions", chat); !strings.Contains(text, unknown) {
		t.Error(text)
	}
	for model, want := range map[string]string{
		"tin":                   `here: ask for tiny, or for a checkpoint by its path, tinker://RUN/sampler_weights/NAME; GET /v1/models`,
		"ft:tiny::1":            `the model \"ft:tiny::1\" is not served here`,
		"tinker://x":            `the path \"tinker://x\" is not that of a checkpoint`,
		"tinker://x/sessions/0": `the path \"tinker://x/sessions/0\" is not that of a checkpoint`,
	} {
		if _, text := bob.ask(words, "/v1/completions", object{"model": model, "prompt": first}); !strings.Contains(text, want) {
			t.Error(text)
		}
	}
	of := func(owner string) []string {
		r := httptest.NewRequest(http.MethodGet, "/v1/models", nil)
		return c.server.Words().Names(r.WithContext(context.WithValue(r.Context(), ownerKey{}, owner)))
	}
	if names := of("ann"); len(names) != 4 || names[0] != "tiny" || !slices.Contains(names, sampler) || names[3] != "ft:tiny::1" {
		t.Errorf("ann has %v", names)
	}
	if names := of("bob"); !slices.Equal(names, []string{"tiny"}) {
		t.Errorf("bob has %v", names)
	}
	ann.got("POST", "training_runs/"+id+"/checkpoints/sampler_weights/w/publish", nil)
	if got := bob.scored(words, sampler); !slices.Equal(got, want[0]) {
		t.Errorf("a published checkpoint has %v", got)
	}
}

// What is sampled in words comes from the tokens of the key, and its numbers say so to that key, and to the service's own.
func TestWordsUseTheTokensOfTheirKey(t *testing.T) {
	dir := t.TempDir()
	c, words := worded(t, dir)
	ann, bob := c.as(add(t, dir, Key{Name: "ann", TokensPerHour: 100})), c.as(add(t, dir, Key{Name: "bob"}))
	in := object{"model": "tiny", "prompt": first, "max_tokens": 5, "ignore_eos": true, "n": 2}
	if resp, text := ann.ask(words, "/v1/completions", in); resp.StatusCode != 200 || !strings.Contains(text, `"versions":[0,0]`) {
		t.Fatalf("%d, %s", resp.StatusCode, text)
	}
	a := c.server.train.account
	a.mu.Lock()
	left := a.budgets["ann"].left
	a.budgets["ann"].left = -1000
	a.mu.Unlock()
	if left < 83 || left > 85 { // 6 of the prompt, 10 of the replies
		t.Errorf("%v tokens of 100 are left", left)
	}
	resp, text := ann.ask(words, "/v1/completions", in)
	after := resp.Header.Get("Retry-After")
	const used = "the key ann has used its 100 tokens of an hour"
	if resp.StatusCode != http.StatusTooManyRequests || len(after) != 5 || !strings.Contains(text, used) {
		t.Errorf("%d after %s, %s", resp.StatusCode, after, text)
	}
	if resp, text := bob.ask(words, "/v1/completions", in); resp.StatusCode != 200 {
		t.Errorf("%d, %s", resp.StatusCode, text)
	}
	bob.model(0)
	bob.output(bob.send(request(bob.session+":train:0", 1, "cross_entropy", first)))
	for owner, want := range map[string][]string{
		"ann": {`trinity_service_requests_total{key="ann",api="/v1"} 2`, `trinity_service_tokens_total{key="ann",kind="sampled"} 10`,
			`trinity_service_tokens_total{key="ann",kind="prompt"} 6`},
		"bob": {`trinity_service_tokens_total{key="bob",kind="trained"} 5`, `trinity_service_models{key="bob",state="loaded"} 1`,
			`trinity_service_waiting_requests{key="bob",for="training"} 0`, "# TYPE trinity_service_tokens_total counter\n",
			"# HELP trinity_service_models Models of a key: those in memory, and those out of it, on the disk alone.\n"},
		"": {`{key="ann",kind="sampled"} 10`, `{key="bob",kind="sampled"} 10`},
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		w := httptest.NewRecorder()
		(&usage{c.server}).metrics(w, r.WithContext(context.WithValue(r.Context(), ownerKey{}, owner)))
		for _, line := range want {
			if !strings.Contains(w.Body.String(), line) {
				t.Errorf("%q sees no %s in\n%s", owner, line, w.Body)
			}
		}
		if promtool, err := exec.LookPath("promtool"); err == nil {
			cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
			cmd.Stdin = strings.NewReader(w.Body.String())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("promtool: %v: %s", err, out)
			}
		}
		if other := map[string]string{"ann": "bob", "bob": "ann"}[owner]; other != "" && strings.Contains(w.Body.String(), other) {
			t.Errorf("%q sees\n%s", owner, w.Body)
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 401, "/api/v1/healthz": 401} {
		resp, err := http.Get(c.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s without a key: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

// leaving is a sampler whose client leaves after some tokens.
type leaving struct{ *counting }

func (leaving) Sample(_ context.Context, _ trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	for range 3 {
		p.Tell(0, trinity.Sampled{})
	}
	return nil, context.Canceled
}

// A client that leaves in the middle of a stream has used the tokens that were sampled.
func TestTokensOfAStreamThatEndsEarlyCount(t *testing.T) {
	a := newAccount(func(string) int64 { return 0 })
	b := &Base{Sampler: leaving{&counting{}}, queue: newQueue(a, 4, 2048)}
	x := &sampler{base: b, owner: "ann", id: "x"}
	if _, err := x.draw(t.Context(), trinity.Prompt{Tokens: first}, trinity.SamplingParams{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if used := a.usage()["ann"]; used[sampledTokens] != 3 || used[readTokens] != int64(len(first)) || b.queue.free != 4 {
		t.Errorf("%v is used, %d of 4 places are free", used, b.queue.free)
	}
}

// An adapter that has a name stays for a while when nobody uses it, and leaves for one that is wanted.
func TestNamedAdaptersStay(t *testing.T) {
	loader := &counting{}
	s := &shelf{loader: loader, freed: make(chan struct{}), stays: time.Hour, all: map[string]*adapter{}}
	var last string
	once := func(name, kind string) {
		c := &checkpoint{dir: t.TempDir(), path: tinker.Path{Run: "r", Kind: kind, Name: name}}
		if err := c.describe(c.dir); err != nil {
			t.Fatal(err)
		}
		a := s.add(c)
		last = a.name
		_, leave, err := s.use(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		leave()
		s.drop(t.Context(), a)
	}
	once("session", ofSessions)
	once("named", tinker.Weights)
	named := last
	if !slices.Equal(loader.names, []string{named}) {
		t.Errorf("the sampler holds %v", loader.names)
	}
	for i := range maxLoaded {
		once(fmt.Sprint(i), tinker.SamplerWeights)
	}
	if len(loader.names) != maxIdle || slices.Contains(loader.names, named) || len(s.all) != maxIdle || s.loaded != maxIdle {
		t.Errorf("%d are loaded of %d, of which the shelf knows %d", s.loaded, len(loader.names), len(s.all))
	}
	s.stays = 0
	s.sweep(t.Context())
	if len(loader.names) != 0 || len(s.all) != 0 || s.loaded != 0 {
		t.Errorf("the sampler still holds %v", loader.names)
	}
}
