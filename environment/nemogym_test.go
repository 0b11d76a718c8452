package environment

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// counterServer answers as NeMo Gym's server example_session_state_mgmt does: a counter for each
// session, which a cookie names. Its verdicts have what NeMo Gym's have, the request first.
type counterServer struct {
	mu       sync.Mutex
	counters map[string]int
	verdict  map[string]any // goes over the verdict
	last     map[string]any // body of the last request to /verify
}

// ServeHTTP implements http.Handler.
func (s *counterServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodPost || r.Header.Get("X-Key") != "k" {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	session := ""
	if cookie, err := r.Cookie("session"); err == nil {
		session = cookie.Value
	}
	var body map[string]any
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		http.Error(w, `{"detail":"no object"}`, http.StatusUnprocessableEntity)
		return
	}
	answer := map[string]any{}
	switch r.URL.Path {
	case "/seed_session":
		session = fmt.Sprint("s", len(s.counters))
		http.SetCookie(w, &http.Cookie{Name: "session", Value: session, Path: "/", HttpOnly: true})
		s.counters[session] = int(body["initial_count"].(float64))
	case "/increment_counter":
		count, ok := body["count"].(float64)
		if !ok {
			http.Error(w, `{"detail":"count: field required"}`, http.StatusUnprocessableEntity)
			return
		}
		s.counters[session] += int(count)
		answer["success"] = true
	case "/get_counter_value":
		answer["count"] = s.counters[session]
	case "/verify":
		s.last = body
		for name, value := range body {
			answer[name] = value
		}
		answer["reward"] = 0.0
		if float64(s.counters[session]) == body["expected_count"] {
			answer["reward"] = 1.0
		}
		answer["counted"], answer["share"], answer["word"] = true, 0.25, "x"
		for name, value := range s.verdict {
			answer[name] = value
		}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// counterRow is a row of that server's dataset.
func counterRow(t *testing.T) map[string]any {
	t.Helper()
	const text = `{"responses_create_params": {"instructions": "Be brief.", "input": [{"content": "Use tools.", "role": "developer"},
		{"role": "user", "content": [{"type": "input_text", "text": "add 1 then "}, {"type": "input_text", "text": "add 2"}]}],
		"parallel_tool_calls": false, "tools": [{"name": "increment_counter", "parameters": {"type": "object", "properties":
		{"count": {"type": "integer", "description": ""}}, "required": ["count"]}, "strict": true, "type": "function", "description": "adds"},
		{"name": "get_counter_value", "parameters": {"type": "object", "properties": {}}, "strict": true, "type": "function"}]},
		"expected_count": 6, "initial_count": 3}`
	var row map[string]any
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		t.Fatal(err)
	}
	return row
}

func serveCounters(t *testing.T) (*counterServer, map[string]any) {
	s := &counterServer{counters: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, map[string]any{"url": server.URL + "/", "headers": map[string]string{"X-Key": "k"}}
}

func TestNeMoGymConforms(t *testing.T) {
	_, args := serveCounters(t)
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{Row: counterRow(t)},
		Act: func(i int, _ trinity.Observation) trinity.Action {
			return []trinity.Action{call("increment_counter", `{"count": 3}`), call("get_counter_value", `{}`), {Text: "6"}}[i]
		},
	}, open(t, "nemo_gym", args))
}

func TestNeMoGymSpeaks(t *testing.T) {
	s, args := serveCounters(t)
	args["max_answer"] = 100
	s.verdict = map[string]any{"reward_components": map[string]float64{"right": 0.75}, "expected_count": 7}
	env, first := begin(t, "nemo_gym", args, counterRow(t))
	if len(first.Messages) != 3 || first.Messages[0].Role+first.Messages[1].Role != "systemsystem" ||
		first.Messages[2].Content != "add 1 then add 2" {
		t.Errorf("begins with %+v", first.Messages)
	}
	const schema = `[{"function":{"description":"adds","name":"increment_counter","parameters":{"properties":{"count":`
	if !strings.HasPrefix(string(first.Tools), schema) {
		t.Errorf("tools %s", first.Tools)
	}
	act := func(a trinity.Action) trinity.Outcome {
		t.Helper()
		out, err := env.Step(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, c := range []struct {
		action trinity.Action
		says   string
		failed bool
	}{
		{call("increment_counter", `{"count": 3}`), `{"success":true}`, false},
		{call("increment_counter", `{"x": 3}`), `count: field required`, true},
		{call("verify", `{}`), `there is no tool "verify"`, true},
		{call("get_counter_value", `{}`), `{"count":6}`, false},
	} {
		c.action.Text = "I think."
		out := act(c.action)
		if m := out.Messages[0]; m.Role != "tool" || m.ToolCallID != "c1" || !strings.Contains(m.Content, c.says) || out.ToolError != c.failed ||
			out.Done || out.Reward != nil {
			t.Errorf("%+v: %+v, want %q", c.action, out, c.says)
		}
	}
	out := act(trinity.Action{Text: "It is 6."})
	if !out.Done || *out.Reward != 1 || out.Parts["right"] != 0.75 {
		t.Errorf("at the end: %+v", out)
	}
	if len(out.Metrics) != 2 || out.Metrics["counted"] != 1 || out.Metrics["share"] != 0.25 {
		t.Errorf("metrics %v: want the verdict's own numbers", out.Metrics)
	}
	kinds := ""
	response := s.last["response"].(map[string]any)
	for _, item := range response["output"].([]any) {
		kinds += item.(map[string]any)["type"].(string) + " "
	}
	if want := strings.Repeat("message function_call function_call_output ", 4) + "message "; kinds != want {
		t.Errorf("the server reads %s, want %s", kinds, want)
	}
	if s.last["initial_count"] != 3.0 || len(response["tools"].([]any)) != 2 {
		t.Errorf("the server reads %v", s.last)
	}
}

// The last reply that max_steps allows is verified, too.
func TestNeMoGymVerifiesAtTheLimit(t *testing.T) {
	_, args := serveCounters(t)
	args["max_steps"] = 1
	env, _ := begin(t, "nemo_gym", args, counterRow(t))
	out, err := env.Step(t.Context(), call("increment_counter", `{"count": 3}`))
	if err != nil || out.Done || !out.Truncated || *out.Reward != 1 {
		t.Errorf("%v, %+v", err, out)
	}
}

// What is no verdict is an error, and never reward 0.
func TestNeMoGymNeedsAVerdict(t *testing.T) {
	s, args := serveCounters(t)
	for want, verdict := range map[string]map[string]any{
		"judge_failed: ConnectionError: gone": {"_ng_failure_class": "judge_failed", "_ng_failure_judge_error": "ConnectionError: gone"},
		`no number "reward"`:                  {"reward": nil},
		"no verdict":                          {"reward": "1"},
	} {
		s.verdict = verdict
		env, _ := begin(t, "nemo_gym", args, counterRow(t))
		if out, err := env.Step(t.Context(), trinity.Action{Text: "3"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, %+v, want %q", verdict, err, out, want)
		}
	}
	args["headers"] = map[string]string{}
	env, err := open(t, "nemo_gym", args).OpenEnvironment(t.Context(), &trinity.Task{Row: counterRow(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Reset(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "/seed_session: 403 Forbidden") {
		t.Errorf("a server that refuses: %v", err)
	}
}

func TestNeMoGymRefuses(t *testing.T) {
	for _, args := range []map[string]any{
		{}, {"url": "localhost:80"}, {"url": "http://a", "max_steps": 0}, {"url": "http://a", "max_answer": 1},
	} {
		if _, err := registry.Environments.Build("nemo_gym", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	check := trinity.RequirementsOf(open(t, "nemo_gym", map[string]any{"url": "http://a"})).CheckTask
	for text, want := range map[string]string{
		`{}`: "want an object",
		`{"responses_create_params": {"input": []}}`:                                                            "no message",
		`{"responses_create_params": {"input": [{"role": "robot", "content": "x"}]}}`:                           `"robot"`,
		`{"responses_create_params": {"input": [{"type": "computer_call"}]}}`:                                   "computer_call",
		`{"responses_create_params": {"input": [{"role": "user", "content": [{"type": "input_image"}]}]}}`:      "input_image",
		`{"responses_create_params": {"input": "x", "tools": [{"type": "web_search"}]}}`:                        "web_search",
		`{"responses_create_params": {"input": "x", "tools": [{"type": "function", "name": "verify"}]}}`:        `"verify"`,
		`{"responses_create_params": {"input": "x", "tools": [{"type": "function", "name": "../../admin"}]}}`:   "admin",
		`{"responses_create_params": {"input": [{"type": "function_call", "name": "f", "arguments": "{\"a"}]}}`: "no JSON",
	} {
		var row map[string]any
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			t.Fatal(err)
		}
		if err := check(&trinity.Task{Row: row}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := check(&trinity.Task{Row: map[string]any{"responses_create_params": map[string]any{"input": "How many?"}}}); err != nil {
		t.Errorf("a text without tools: %v", err)
	}
}

// Whatever the server answers, there is a finite reward or an error.
func FuzzNeMoGymVerdicts(f *testing.F) {
	f.Add(`{"reward": 1, "accuracy": true, "reward_components": {"a": 0.5}}`)
	f.Add(`{"reward": 1e999, "share": -1e999}`)
	f.Add(`{"reward": 0, "_ng_failure_class": "judge_failed"}`)
	f.Fuzz(func(t *testing.T, answer string) {
		var out trinity.Outcome
		e := &gymSession{row: map[string]any{"id": 1}}
		if e.read([]byte(answer), &out) == nil && (math.IsNaN(*out.Reward) || math.IsInf(*out.Reward, 0)) {
			t.Errorf("%q: %+v", answer, out)
		}
	})
}

// Servers of the package nemo-gym, on Python 3.13.
func TestNeMoGymWithItsServers(t *testing.T) {
	python := agentsPython(t)
	if err := (&bridge.Python{Python: python}).Has("nemo_gym"); err != nil {
		t.Skip(err)
	}
	tools := `"tools": [{"type": "function", "name": "get_synonym_value", "strict": true, "parameters": {}},
		{"type": "function", "name": "extract_synonym_values", "strict": true, "parameters": {}}]`
	for name, c := range map[string]struct {
		server  string
		row     string // "" is counterRow
		actions []trinity.Action
	}{
		"example_session_state_mgmt": {"StatefulCounterResourcesServer", "", []trinity.Action{
			call("increment_counter", `{"count": 3}`), call("get_counter_value", `{}`), {Text: "6"},
		}},
		"example_multi_step": {"ExampleMultiStepResourcesServer", `{"id": 1, "responses_create_params": {"input": "Extract.", ` + tools + `},
			"expected_synonym_values": [97, 98], "expected_synonyms": ["a", "b"], "minefield_label": "c", "minefield_label_value": 99}`,
			[]trinity.Action{
				call("get_synonym_value", `{"synonym": "a"}`), call("get_synonym_value", `{"word": "b"}`),
				call("extract_synonym_values", `{"synonym_values": [97, 98]}`), {Text: "Done."},
			}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), python, "testdata/nemogym_server.py", name, c.server)
			cmd.Stderr = os.Stderr
			said, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { cmd.Process.Kill(); cmd.Wait() }()
			port := 0
			if _, err := fmt.Fscan(said, &port); err != nil {
				t.Fatal(err)
			}
			row := counterRow(t)
			if c.row != "" {
				row = map[string]any{}
				if err := json.Unmarshal([]byte(c.row), &row); err != nil {
					t.Fatal(err)
				}
			}
			env, _ := begin(t, "nemo_gym", map[string]any{"url": fmt.Sprint("http://127.0.0.1:", port)}, row)
			for i, a := range c.actions {
				out, err := env.Step(t.Context(), a)
				if err != nil {
					t.Fatal(err)
				}
				if last := i == len(c.actions)-1; out.Done != last || last && *out.Reward != 1 {
					t.Errorf("action %d: %+v", i, out)
				}
			}
		})
	}
}
