package environment

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

const threeDocuments = `{"id": "a", "title": "Rome", "text": "The capital of Italy is Rome."}

{"docid": "b", "title": "Paris", "contents": "The capital of France is Paris, and Paris is large."}
{"id": 7, "text": "Rome has seven hills, and Italy has more."}`

// documents writes a corpus.
func documents(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "corpus.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// toolCall returns the action that calls a tool with one argument.
func toolCall(name, arg, value string) trinity.Action {
	args, _ := json.Marshal(map[string]string{arg: value}) // texts are always JSON
	return trinity.Action{Calls: []trinity.ToolCall{{ID: "1", Name: name, Arguments: args}}}
}

var capital = &trinity.Task{
	Row: map[string]any{"q": "What is Italy's capital?", "a": "Rome"}, Format: trinity.TaskFormat{PromptKey: "q", ResponseKey: "a"},
}

func TestSearchConforms(t *testing.T) {
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: capital,
		Act: func(i int, _ trinity.Observation) trinity.Action {
			return []trinity.Action{toolCall("search", "query", "Italy"), toolCall("get_document", "id", "a"), {Text: "Rome"}}[i]
		},
	}, open(t, "search", map[string]any{"corpus": documents(t, threeDocuments)}))
}

// Recorded with the formula in 12 lines of Python.
func TestBM25(t *testing.T) {
	c, err := openCorpus(documents(t, threeDocuments))
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]map[string]float64{
		"capital of Italy":    {"a": 0.770174014, "b": 0.470727826, "7": 0.251029054},
		"PARIS":               {"b": 0.736188238},
		"seven hills of rome": {"a": 0.588792453, "b": 0.235363913, "7": 1.298751346},
		"Wien":                {},
	} {
		got := c.scores(query)
		for id, score := range want {
			if s := got[c.numbers[id]]; math.Abs(s-score) > 1e-8 {
				t.Errorf("%q: document %s has score %.9f, want %.9f", query, id, s, score)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%q: %d documents, want %d", query, len(got), len(want))
		}
	}
}

func TestSearchTools(t *testing.T) {
	path := documents(t, threeDocuments)
	const paris = `{"id":"b","title":"Paris","text":"The capital of France is Paris, and Paris is large."}`
	for _, c := range []struct {
		args   map[string]any
		action trinity.Action
		want   string // in the tool's answer
		wrong  bool
	}{
		{nil, toolCall("search", "query", "France"), "[" + paris + "]", false},
		{nil, toolCall("search", "query", "Wien"), "[]", false},
		{map[string]any{"top_k": 1, "max_snippet": 9}, toolCall("search", "query", "the capital"),
			`[{"id":"a","title":"Rome","text":"The capit …"}]`, false},
		{nil, toolCall("get_document", "id", "b"), paris, false},
		{nil, toolCall("get_document", "id", "7"), `{"id":"7","text":"Rome has seven`, false},
		{map[string]any{"max_document": 4}, toolCall("get_document", "id", "7"), `"Rome …"`, false},
		{nil, toolCall("get_document", "id", "8"), `there is no document "8"`, true},
		{nil, toolCall("search", "query", " "), `"query"`, true},
		{nil, toolCall("browse", "url", "http://127.0.0.1"), "only get_document, search", true},
		{map[string]any{"get_document": false}, toolCall("get_document", "id", "b"), "only search", true},
	} {
		args := map[string]any{"corpus": path}
		for k, v := range c.args {
			args[k] = v
		}
		env, err := open(t, "search", args).OpenEnvironment(t.Context(), capital)
		if err != nil {
			t.Fatal(err)
		}
		out, err := env.Step(t.Context(), c.action)
		if err != nil || out.Done || out.ToolError != c.wrong || !strings.Contains(out.Messages[0].Content, c.want) {
			t.Errorf("%v %+v: %+v, %v; want %s", c.args, c.action, out, err, c.want)
		}
		first, err := env.Reset(t.Context(), 1)
		if offers := strings.Contains(string(first.Tools), "get_document"); err != nil || offers != (c.args["get_document"] == nil) {
			t.Errorf("%v: tools %s, %v", c.args, first.Tools, err)
		}
		for answer, reward := range map[string]float64{"It is\nRome": 1, "Milan": 0} {
			if out, err := env.Step(t.Context(), trinity.Action{Text: answer}); err != nil || !out.Done || *out.Reward != reward {
				t.Errorf("answer %q: %+v, %v", answer, out, err)
			}
		}
	}
}

// engineServer is a search service that keeps the last request.
func engineServer(t *testing.T, status int, answer string) (address string, last *string) {
	t.Helper()
	last = new(string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*last = fmt.Sprintf("%s %s %s %s", r.Method, r.URL, body, r.Header.Get("Authorization"))
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL, last
}

func TestSearchAsksServices(t *testing.T) {
	const results = `{"results": [{"url": "http://x/1", "title": "Rome", "content": "Capital of Italy"}, {"id": 2, "text": "b"}]}`
	for _, c := range []struct {
		path, method string
		status       int
		answer       string
		action       trinity.Action
		asked, want  string // want begins with ! if it is an error of the environment
		wrong        bool
	}{
		{"/s", "post", 200, results, toolCall("search", "query", "italy"), `POST /s {"max_results":1,"query":"italy"} Bearer k`,
			`[{"id":"http://x/1","title":"Rome","text":"Capital of Italy"}]`, false},
		{"/s?lang=en", "get", 200, results, toolCall("search", "query", "a b&c"), `GET /s?format=json&lang=en&q=a+b%26c  Bearer k`,
			"Capital of Italy", false},
		{"/s", "post", 200, `{"results": []}`, toolCall("search", "query", "x"), "", "[]", false},
		{"/s", "post", 200, `{"error": "quota"}`, toolCall("search", "query", "x"), "", "!without results", false},
		{"/s", "post", 200, `{"results": [{"text": "nameless"}]}`, toolCall("search", "query", "x"), "", "!neither id nor url", false},
		{"/s", "post", 403, "no key", toolCall("search", "query", "x"), "", "!403 Forbidden: no key", false},
		{"/d", "post", 200, `{"id": "2", "text": "all of it"}`, toolCall("get_document", "id", "2"), `POST /d {"id":"2"} Bearer k`,
			`{"id":"2","text":"all of it"}`, false},
		{"/d", "post", 404, "gone", toolCall("get_document", "id", "3"), "", `no document "3"`, true},
		{"/d", "post", 200, "[]", toolCall("get_document", "id", "3"), "", "!answers no document", false},
	} {
		address, last := engineServer(t, c.status, c.answer)
		env, err := open(t, "search", map[string]any{
			"url": address + c.path, "document_url": address + "/d", "method": c.method, "top_k": 1,
			"headers": map[string]any{"Authorization": "Bearer k"},
		}).OpenEnvironment(t.Context(), capital)
		if err != nil {
			t.Fatal(err)
		}
		out, err := env.Step(t.Context(), c.action)
		if reason, fails := strings.CutPrefix(c.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("%s: %v, want %s", c.answer, err, reason)
			}
			continue
		}
		if err != nil || out.ToolError != c.wrong || !strings.Contains(out.Messages[0].Content, c.want) {
			t.Errorf("%s: %+v, %v; want %s", c.answer, out, err, c.want)
		}
		if c.asked != "" && *last != c.asked {
			t.Errorf("the service was asked %q, want %q", *last, c.asked)
		}
	}
}

func TestSearchArguments(t *testing.T) {
	path := documents(t, threeDocuments)
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{nil, "name one of both"},
		{map[string]any{"corpus": path, "url": "http://127.0.0.1"}, "name one of both"},
		{map[string]any{"corpus": path, "document_url": "http://127.0.0.1"}, "document_url"},
		{map[string]any{"url": "127.0.0.1:80"}, "url: want http://"},
		{map[string]any{"url": "http://127.0.0.1", "document_url": "file:///etc/passwd"}, "document_url: want http://"},
		{map[string]any{"corpus": path, "method": "put"}, "method"},
		{map[string]any{"corpus": path, "top_k": 0}, "top_k"},
		{map[string]any{"corpus": path, "max_snippet": 0}, "max_snippet"},
	} {
		if _, err := registry.Environments.Build("search", c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.args, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"":                                  "no documents",
		`{"id": "a", "text": "x"}` + "\n[]": ":2: ",
		`{"id": "a"}`:                       "neither text nor title",
		`{"text": "x"}`:                     "neither id nor url",
		`{"id": 1, "text": "x"}` + "\n" + `{"id": "1", "text": "y"}`: `"1" is in the file twice`,
	} {
		check := trinity.RequirementsOf(open(t, "search", map[string]any{"corpus": documents(t, text)})).CheckTask
		if err := check(capital); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("corpus %q: %v, want %s", text, err, want)
		}
	}
}
