package studio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/serve/web"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// pretender is the variable that makes the test binary the process of a model. Its value does not
// matter; the argument says how the model behaves.
const pretender = "STUDIO_TEST_MODEL"

func init() {
	if os.Getenv(pretender) == "" {
		return
	}
	kind := os.Args[1]
	switch kind {
	case "broken":
		fmt.Fprintln(os.Stderr, "trinity: model.safetensors is \x1b[31mbroken")
		os.Exit(1)
	case "hangs":
		fmt.Fprintln(os.Stderr, "reads the weights")
		time.Sleep(time.Hour) // a select would be a deadlock
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "serves x at http://%s/v1\n", l.Addr())
	panic(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { pretend(w, r, kind) })))
}

// pretend answers as a model does. What it was asked is a part of the answer.
func pretend(w http.ResponseWriter, r *http.Request, kind string) {
	var in wire.Request
	err := json.NewDecoder(r.Body).Decode(&in)
	if !web.Authorized(r, os.Getenv("TRINITY_TOKEN")) || r.URL.Path != "/v1/chat/completions" || !in.Stream {
		err = errors.Join(err, errors.New("not a request of the studio"))
	}
	if len(in.Messages) == 0 {
		err = errors.Join(err, errors.New("there are no messages"))
	}
	if in.MaxTokens != nil { // the page names no limit, because a model may be shorter
		err = errors.Join(err, errors.New("nobody has chosen a limit"))
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(wire.Refusal{Error: wire.Error{Message: err.Error()}})
		return
	}
	part := func(c wire.Choice) {
		text, err := web.Encode(wire.Response{Choices: []wire.Choice{c}})
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(w, "data: %s\n\n", text)
		_ = http.NewResponseController(w).Flush()
	}
	last := in.Messages[len(in.Messages)-1].Content
	said := fmt.Sprintf("You said %s, after %d messages.", last, len(in.Messages)-1)
	var a, b int
	if n, _ := fmt.Sscanf(last, "What is %d + %d?", &a, &b); n == 2 {
		said = fmt.Sprintf("I add %d to %d, and the answer is %d.", a, b, a+b)
	}
	words := strings.SplitAfter(said, " ")
	all := wire.Logprobs{}
	for i, word := range words {
		part(wire.Choice{Delta: &wire.Message{Content: word}})
		of := wire.TokenLogprob{Token: word, Logprob: -float32(i*i%5) / 2}
		of.TopLogprobs = []wire.TokenLogprob{{Token: word, Logprob: of.Logprob}}
		all.Content = append(all.Content, of)
		if kind == "crashes" {
			os.Exit(3)
		}
		for strings.Contains(last, "forever") {
			select {
			case <-r.Context().Done():
				fmt.Fprintln(os.Stderr, "nobody listens")
				return
			case <-time.After(10 * time.Millisecond):
				part(wire.Choice{Delta: &wire.Message{Content: "on and "}})
			}
		}
	}
	all.Content = append(all.Content, wire.TokenLogprob{Token: "<|end|>", Logprob: -.1})
	part(wire.Choice{Delta: &wire.Message{}, FinishReason: new("stop"), Logprobs: &all})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// withModels is a studio with a run, of which each model is a pretender of its name.
func withModels(t *testing.T, plan func(kind string) ModelPlan, change func(*Server)) *httptest.Server {
	t.Helper()
	t.Setenv(pretender, "1")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "p/r/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	put(t, dir, "p/r/monitor/config.yaml", "model: {model_path: org/start}\n")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Dir: dir, Control: "secret"}
	s.Talker.Models = func(string) (all []Model, err error) {
		for _, kind := range []string{"answers", "crashes", "hangs", "broken"} {
			all = append(all, Model{Name: kind, Kind: "model", Path: kind})
		}
		return append(all, Model{Name: "early", Kind: "model", Path: "early", Why: "it has no model"}), nil
	}
	s.Talker.Plan = func(path string, length int) (ModelPlan, error) {
		if path == "org/start" {
			return ModelPlan{}, errors.New("the model org/start is not on this machine")
		}
		p := ModelPlan{Length: 100}
		if plan != nil {
			p = plan(path)
		}
		p.Command = []string{self, path}
		return p, nil
	}
	if change != nil {
		change(s)
	}
	site := httptest.NewServer(s.Handler())
	t.Cleanup(site.Close)
	t.Cleanup(func() { s.Close() })
	return site
}

// becomes waits until a model is in a state.
func becomes(t *testing.T, s *httptest.Server, id, state string) (of status) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, of = range got[struct{ Talks []status }](t, s, "talk").Talks {
			if of.ID == id && of.State == state {
				return of
			}
		}
	}
	t.Fatalf("it is not %s: %+v", state, of)
	return of
}

func loads(t *testing.T, s *httptest.Server, kind string) string {
	t.Helper()
	return posts[status](t, s, "talk", wanted{Run: "p/r", Model: kind}).ID
}

func asks(text string) map[string]any {
	return map[string]any{"messages": []map[string]string{{"role": "user", "content": text}}}
}

// A model is loaded in a process of its own, answers as it writes, and is ended.
func TestTalk(t *testing.T) {
	s := withModels(t, nil, nil)
	listed := got[struct{ Models []Model }](t, s, "runs/p%2Fr/models").Models
	if len(listed) != 6 || listed[5] != (Model{Name: "base", Kind: "base", Path: "org/start"}) {
		t.Errorf("models %+v", listed)
	}
	id := loads(t, s, "answers")
	if again := loads(t, s, "answers"); again != id {
		t.Error("a model is loaded twice")
	}
	if of := becomes(t, s, id, "ready"); of.Run != "p/r" || of.Model != "answers" || of.Length != 100 || of.Ends <= of.Began {
		t.Errorf("%+v", of)
	}
	status, text := post(t, s, "talk/"+id+"/chat", asks("hi"))
	if status != 200 || !strings.HasPrefix(text, `data: {"choices":[{"delta":{"content":"You "}`) ||
		!strings.Contains(text, `"after "`) || !strings.Contains(text, `"logprob":-0.5`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("%d %s", status, text)
	}
	for _, c := range []struct {
		path   string
		body   any
		status int
		says   string
	}{
		{"talk/" + id + "/chat", map[string]any{}, 400, "there are no messages"},
		{"talk/" + id + "/chat", nil, 400, "there are no messages"},
		{"talk/gone/chat", asks("hi"), 404, "no longer loaded"},
		{"talk/gone/end", map[string]any{}, 404, "no longer loaded"},
		{"talk", wanted{Run: "p/r", Model: "early"}, 400, "early of p/r: it has no model"},
		{"talk", wanted{Run: "p/r", Model: "base"}, 400, "base of p/r: the model org/start is not on this machine"},
		{"talk", wanted{Run: "p/r", Model: "../answers"}, 404, `has no model \"../answers\"`},
		{"talk", wanted{Run: "../p", Model: "answers"}, 404, "there is no run"},
		{"talk", wanted{Run: "p/r", Model: "answers", Length: -1}, 400, "length is -1"},
	} {
		if status, text := post(t, s, c.path, c.body); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s %+v: %d %s", c.path, c.body, status, text)
		}
	}
	second := loads(t, s, "hangs")
	third := wanted{Run: "p/r", Model: "crashes"}
	if status, text := post(t, s, "talk", third); status != 400 || !strings.Contains(text, "2 models are loaded") {
		t.Errorf("a third model: %d %s", status, text)
	}
	if status, text := post(t, s, "talk/"+second+"/chat", asks("hi")); status != 400 || !strings.Contains(text, "hangs of p/r is loading") {
		t.Errorf("a model that loads: %d %s", status, text)
	}
	if of := posts[struct{ State, Error string }](t, s, "talk/"+second+"/end", struct{}{}); of.State != "ended" || of.Error != "" {
		t.Errorf("%+v", of)
	}
	if status, text := post(t, s, "talk/"+second+"/chat", asks("hi")); status != 400 ||
		!strings.Contains(text, "has ended: load it again") {
		t.Errorf("a model that has ended: %d %s", status, text)
	}
}

// What does not fit is refused with the numbers, also beside what a loaded model may still take.
func TestTalkFitsIntoMemory(t *testing.T) {
	s := withModels(t, func(kind string) ModelPlan {
		p := ModelPlan{Sum: 5 << 40, Free: 8 << 40, Memory: []config.MemoryPlan{{Kind: "loading", Bytes: 1 << 40}}}
		if kind == "hangs" {
			p.DoesNotFit = "the run needs about 3 GiB"
		}
		return p
	}, nil)
	if status, text := post(t, s, "talk", wanted{Run: "p/r", Model: "hangs"}); status != 400 ||
		!strings.Contains(text, "hangs of p/r: the run needs about 3 GiB") {
		t.Errorf("%d %s", status, text)
	}
	becomes(t, s, loads(t, s, "answers"), "ready")
	want := regexp.MustCompile(`crashes of p/r: it needs about 5120\.0 GiB of memory and 409\d\.\d GiB are available, ` +
		`besides 409\d\.\d GiB that answers of p/r may still take`)
	if status, text := post(t, s, "talk", wanted{Run: "p/r", Model: "crashes"}); status != 400 || !want.MatchString(text) {
		t.Errorf("%d %s", status, text)
	}
}

// A model that does not load, or ends while it answers, says why.
func TestTalkFails(t *testing.T) {
	for load := 500 * time.Millisecond; ; load *= 2 {
		s := withModels(t, nil, func(s *Server) { s.talks.load = load })
		late := fmt.Sprintf("it has not loaded within %v; the last line of its process: ", load)
		said := becomes(t, s, loads(t, s, "hangs"), "ended").Error
		if said == late+"it has said nothing" && load < 20*time.Second { // a slow machine has not started it
			continue
		}
		if said != late+"reads the weights" {
			t.Errorf("%q", said)
		}
		break
	}
	s := withModels(t, nil, nil)
	if of := becomes(t, s, loads(t, s, "broken"), "ended"); of.Error != `its process ended: model.safetensors is \x1b[31mbroken` {
		t.Errorf("%q", of.Error)
	}
	id := loads(t, s, "crashes")
	becomes(t, s, id, "ready")
	if status, text := post(t, s, "talk/"+id+"/chat", asks("hi")); status != 200 || !strings.Contains(text, `"You "`) ||
		!strings.HasSuffix(text, `event: error`+"\n"+`data: {"error":"crashes of p/r has ended: its process ended: exit status 3"}`+"\n\n") {
		t.Errorf("%d %s", status, text)
	}
	for range 2 * mostEnded {
		becomes(t, s, loads(t, s, "broken"), "ended")
	}
	if all := got[struct{ Talks []status }](t, s, "talk").Talks; len(all) > mostEnded+1 {
		t.Errorf("%d models are told of", len(all))
	}
}

// Whoever leaves ends the answer. A model that nobody uses ends, but not while it answers.
func TestTalkEndsWithoutUse(t *testing.T) {
	const idle = 2 * time.Second // a slow machine asks and hears the end within it
	s := withModels(t, nil, func(s *Server) { s.talks.idle = idle })
	id := loads(t, s, "answers")
	ctx, leave := context.WithCancel(t.Context())
	body, err := json.Marshal(asks("go on forever"))
	if err != nil {
		t.Fatal(err)
	}
	becomes(t, s, id, "ready")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/v1/talk/"+id+"/chat", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("Content-Type", "application/json")
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	time.Sleep(idle + idle/2)
	if of := becomes(t, s, id, "ready"); of.Ends != 0 {
		t.Errorf("%+v", of)
	}
	leave()
	of := becomes(t, s, id, "ended")
	if of.Said != "nobody listens" || of.Error != "nobody has used it for 2s" {
		t.Errorf("%+v", of)
	}
}

// The end of the studio ends the models, and leaves nothing of theirs.
func TestTalkEndsWithTheStudio(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var studio *Server
	s := withModels(t, nil, func(s *Server) { studio = s })
	first, second := loads(t, s, "answers"), loads(t, s, "hangs")
	becomes(t, s, first, "ready")
	studio.Close()
	for _, id := range []string{first, second} {
		if of := becomes(t, s, id, "ended"); of.Error != "the studio has ended" {
			t.Errorf("%+v", of)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("there are %v, %v", left, err)
	}
	if status, text := post(t, s, "talk", wanted{Run: "p/r", Model: "answers"}); status != 500 {
		t.Errorf("a studio that has ended: %d %s", status, text)
	}
}
