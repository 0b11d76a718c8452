package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// recorder is a host and an endpoint that has recorded something.
type recorder struct {
	noHost
	recording trinity.Recording
	broken    error
	options   trinity.EndpointOptions
}

func (r *recorder) Serve(_ context.Context, _ *trinity.Model, o trinity.EndpointOptions) (trinity.Endpoint, error) {
	r.options = o
	return r, nil
}
func (r *recorder) URL() string                        { return "http://here/r/k/v1" }
func (r *recorder) Key() string                        { return "k" }
func (r *recorder) Close() (*trinity.Recording, error) { return &r.recording, r.broken }

// agents runs the workflow http against a service that answers each rollout with text.
func agents(
	t *testing.T, host trinity.Host, status int, text string, args map[string]any, reward trinity.RewardFunc,
) ([]*trinity.Experience, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a assignment
		err := json.NewDecoder(r.Body).Decode(&a)
		if err != nil || a.Prompt != "2+3?" || a.Truth != "5" || a.Task != id.Task || !strings.HasSuffix(a.BaseURL, "/r/"+a.APIKey+"/v1") ||
			a.Row["a"] != 5.0 {
			t.Errorf("%+v: %v", a, err)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	all := map[string]any{"url": server.URL}
	for k, v := range args {
		all[k] = v
	}
	r := rollout(task(), model(&parrot{}), reward)
	r.Host = host
	return build(t, "http", all).Run(t.Context(), r)
}

// two returns a recording of two sequences.
func two() trinity.Recording {
	last := &trinity.Experience{ID: id, Response: "five"}
	return trinity.Recording{
		Calls: 2, Experiences: []*trinity.Experience{{ID: id}, last}, Last: last,
		Messages: []trinity.Message{{Role: "user", Content: "2+3?"}, {Role: "assistant", Content: "five"}},
	}
}

// What a service answers is no reward: the task's reward function scores, else nothing does.
func TestWordsOfAgentsAreNoReward(t *testing.T) {
	for text, isLike := range map[string]bool{
		"well\n{\"reward\": 0.5, \"parts\": {\"a\": 1}}\n": true, `{"error": "no disk"}`: true, `{"reward": NaN}`: true,
		`{"answer": 5}`: false, "I am done.": false, "": false,
	} {
		fn, host := &echo{}, newDesk(t)
		exps, err := agents(t, host, 200, text, nil, fn)
		if err != nil || exps[0].Reward.Value != 1.5 || exps[1].Reward.Value != 1.5 || fn.got.Response != "five" ||
			len(fn.got.Messages) != 2 {
			t.Errorf("%s: %+v, %v; the reward function saw %+v", text, exps, err, fn.got)
		}
		if said := strings.Count(host.log.String(), "SAID the last line of a program looks like a reward"); (said == 1) != isLike {
			t.Errorf("%s: the run says %q", text, host.log.String())
		}
		_, err = agents(t, newDesk(t), 200, text, nil, nil)
		if said := fmt.Sprint(err); !strings.HasPrefix(said, "nothing scored the rollout") || strings.Contains(said, wordsHint) != isLike {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAPostedRewardCounts(t *testing.T) {
	posted := trinity.NewReward(map[string]float64{"a": 2})
	args := map[string]any{"steps": true, "max_calls": 3, "sampling": "request", "own_reward": true, "required_tools": "auto"}
	begin := func(reward *trinity.Reward, step trinity.Reward) *recorder {
		host := &recorder{recording: two()}
		host.recording.Reward, host.recording.Experiences[0].Reward = reward, step
		return host
	}
	step := trinity.NewReward(map[string]float64{"step": 7})
	for name, c := range map[string]struct {
		host     *recorder
		function trinity.RewardFunc
		want     string
	}{
		"no function":                 {begin(&posted, step), nil, "7 2"},
		"before the function":         {begin(&posted, step), &echo{}, "7 2"},
		"the function's for the rest": {begin(nil, step), &echo{}, "7 1.5"},
		"the function's":              {begin(nil, trinity.Reward{}), &echo{}, "1.5 1.5"},
		"of a step alone":             {begin(nil, step), nil, "7 0"},
	} {
		exps, err := agents(t, c.host, 200, "", args, c.function)
		if err != nil || fmt.Sprint(exps[0].Reward.Value, " ", exps[1].Reward.Value) != c.want {
			t.Errorf("%s: %v, %v; want %s", name, exps, err, c.want)
		}
	}
	host := begin(&posted, step)
	if _, err := agents(t, host, 200, "", args, nil); err != nil {
		t.Fatal(err)
	}
	want := trinity.EndpointOptions{Steps: true, Sampling: "request", MaxCalls: 3, ToolsAreOptional: true, Models: map[string]trinity.Asker{}}
	if !reflect.DeepEqual(host.options, want) {
		t.Errorf("options %+v", host.options)
	}
	for name, host := range map[string]*recorder{"rollout": begin(&posted, trinity.Reward{}), "step": begin(nil, step)} {
		_, err := agents(t, host, 200, "", nil, &echo{})
		if err == nil || !strings.Contains(err.Error(), "own_reward: true") {
			t.Errorf("a reward of a %s beside a reward function: %v", name, err)
		}
	}
}

func TestFailuresOfAgents(t *testing.T) {
	engine := &trinity.EngineError{Err: errors.New("no memory")}
	disk := &trinity.RolloutError{Kind: trinity.FailedTool, Err: errors.New("no disk")}
	for name, c := range map[string]struct {
		host  recorder
		args  map[string]any
		code  int
		kind  trinity.FailureKind
		final bool
		has   string
	}{
		"status": {host: recorder{recording: two()}, code: 404, kind: trinity.FailedAgent, final: true, has: "404"},
		"idempotent": {
			host: recorder{recording: two()}, args: map[string]any{"idempotent": true}, code: 404, kind: trinity.FailedAgent, has: "404",
		},
		"no call": {code: 200, kind: trinity.FailedAgent, has: "received no reply of the policy, of 0 calls"},
		"reported": {
			host: recorder{recording: trinity.Recording{Calls: 1, Failure: disk}}, code: 200, kind: trinity.FailedTool, final: true, has: "no disk",
		},
		"no reward": {host: recorder{recording: two()}, code: 200, kind: trinity.FailedAgent, final: true, has: "nothing scored the rollout"},
		"engine":    {host: recorder{broken: engine}, code: 200, has: "no memory"},
	} {
		_, err := agents(t, &c.host, c.code, "", c.args, nil)
		var failed *trinity.RolloutError
		known := errors.As(err, &failed)
		if known != (c.kind != "") || known && (failed.Kind != c.kind || failed.Final != c.final) || !strings.Contains(fmt.Sprint(err), c.has) {
			t.Errorf("%s: %+v: %v", name, failed, err)
		}
	}
}

func TestArgumentsOfAgents(t *testing.T) {
	with := func(change func(*agentArgs)) *execWorkflow {
		x := &execWorkflow{agentArgs: defaultAgent()}
		change(&x.agentArgs)
		return x
	}
	for want, x := range map[string]any{
		"sampling: want taskset or request":   with(func(a *agentArgs) { a.Sampling = "mine" }),
		"required_tools: want refuse or auto": with(func(a *agentArgs) { a.Required = "required" }),
		"max_calls":                           with(func(a *agentArgs) { a.MaxCalls = -1 }),
		"models: \"[\": \"policy\": want":     with(func(a *agentArgs) { a.Models = map[string]string{"[": "policy"} }),
		"command: name a program":             with(func(*agentArgs) {}),
		"max_retry_times": func() *httpWorkflow {
			h := &httpWorkflow{agentArgs: defaultAgent()}
			h.Timeout, h.MaxRetryTimes = 1, 1
			return h
		}(),
	} {
		if err := registry.Validate(x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
