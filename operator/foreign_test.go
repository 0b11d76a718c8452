package operator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// programs are the things that this test binary does as the program of the exec operator.
var programs = map[string]func(in io.Reader, out, log io.Writer) int{
	"echo": func(in io.Reader, out, _ io.Writer) int { _, _ = io.Copy(out, in); return 0 },
	"even": func(in io.Reader, out, _ io.Writer) int {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			var e struct{ Index int }
			if json.Unmarshal(lines.Bytes(), &e) == nil && e.Index%2 == 0 {
				fmt.Fprintf(out, "%s\n", lines.Text())
			}
		}
		return 0
	},
	"fail":     func(_ io.Reader, _, log io.Writer) int { fmt.Fprintln(log, "no model\nis loaded"); return 3 },
	"nonsense": func(_ io.Reader, out, _ io.Writer) int { fmt.Fprintln(out, "ready."); return 0 },
	"hang":     func(_ io.Reader, _, log io.Writer) int { fmt.Fprintln(log, "waits"); time.Sleep(time.Hour); return 1 },
}

func TestMain(m *testing.M) {
	if name := os.Getenv("OPERATOR_TEST_PROGRAM"); name != "" && len(os.Args) == 2 && os.Args[1] == name {
		time.AfterFunc(time.Minute, func() { os.Exit(9) })
		os.Exit(programs[name](os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// program returns the command that starts one of the programs.
func program(name string) []any {
	os.Setenv("OPERATOR_TEST_PROGRAM", name)
	return []any{os.Args[0], name}
}

func serve(t *testing.T, handle http.HandlerFunc) string {
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.URL
}

// answering returns an http operator with a service that answers every request with text.
func answering(t *testing.T, text string) trinity.Operator {
	return build(t, "http", args{"url": serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text) }), "max_retry_times": 0})
}

func TestForeignAnswersEditTheStep(t *testing.T) {
	for _, c := range []struct {
		answer string
		want   [][]float64
		diff   float64
	}{
		{"", nil, 0},
		{`{"index":2}` + "\n" + `{"index":0}`, [][]float64{{1}, {failed}}, 0},
		{`{"index":0,"reward":0.25} {"index":1,"reward":null,"reason":"rude"}`, [][]float64{{0.25, failed}}, -0.75},
		{`{"index":2,"reward":3}`, [][]float64{{3}}, 0}, // a program may score an experience without a reward
		{`{"index":2,"reward":null}`, [][]float64{{failed}}, 0},
	} {
		kept, metrics, err := answering(t, c.answer).Process(t.Context(), groups{group(1, 0), group(failed)})
		if err != nil || !same(values(kept), c.want) || metrics["filtered_count"] != float64(3-count(c.want)) ||
			metrics["reward_diff/mean"] != c.diff {
			t.Errorf("%s: got %v, %v, %v; want %v", c.answer, values(kept), metrics, err, c.want)
		}
	}
}

func count(g [][]float64) (n int) {
	for _, r := range g {
		n += len(r)
	}
	return n
}

func TestForeignAnswersAreChecked(t *testing.T) {
	for answer, want := range map[string]string{
		`{"reward":1}`:                    "no index",
		`{"index":3}`:                     "not one of the 3",
		`{"index":-1}`:                    "not one of the 3",
		`{"index":0} {"index":0}`:         "an earlier answer has the index 0 too",
		`{"index":0,"rewrad":1}`:          "rewrad",
		`{"index":0,"reward":"1"}`:        "want a number or null",
		`{"index":0,"metrics":{"a":"b"}}`: "metrics",
		`{"index":0} {"index":`:           "answer 2",
		`<html>`:                          `answer 1: invalid character '<' looking for beginning of value; it begins "<html>"`,
		`{"index":0} [1]`:                 `answer 2: want a JSON object; it begins "[1]"`,
		"{\"index\":0}\nhello " + strings.Repeat("x", 99) + "\n": `it begins "hello ` + strings.Repeat("x", 74) + `…"`,
		`{"index":0,"response":"x"}`:                             `response is read-only, but changed from "a b" to "x"`,
		`{"index":0,"response":null}`:                            "response is read-only",
		`{"index":0,"group":1}`:                                  "group is read-only, but changed from 0 to 1",
		`{"index":0,"parts":{"accuracy":0}}`:                     "parts is read-only",
		`{"index":0,"parts":{"new":1}}`:                          "parts is read-only",
	} {
		g := group(1, 0)
		g[0].Response = "a b"
		if _, _, err := answering(t, answer).Process(t.Context(), groups{g, group(failed)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", answer, err, want)
		}
	}
}

// Read-only fields may come back in any JSON form of the same value.
func TestReadOnlyFieldsMayComeBack(t *testing.T) {
	g := group(1)
	g[0].Response, g[0].Reward.Parts = "é\xff\u2028", map[string]float64{"accuracy": 1, "format": 0.1, "bad": math.NaN()}
	const answer = `{"index":0,"group":0.0,"response":"\u00e9\ufffd\u2028","versions":[0, 0.0],"parts":{"bad":null,"accuracy":1.0}}`
	if kept, _, err := answering(t, answer).Process(t.Context(), groups{g}); err != nil || len(kept) != 1 {
		t.Errorf("kept %v, %v", kept, err)
	}
}

// A reward of null makes the reward invalid. An experience without a reward keeps its reason.
func TestNullMakesRewardInvalid(t *testing.T) {
	for _, c := range []struct {
		reward       trinity.Reward
		answer, want string
	}{
		{trinity.InvalidReward("too late"), `"reward":null`, "too late"},
		{trinity.InvalidReward("too late"), `"reward":null,"reason":"mine"`, "too late"},
		{trinity.Reward{Value: 1, Valid: true}, `"reward":null`, "the operator took it away"},
		{trinity.Reward{Value: 1, Valid: true}, `"reward":null,"reason":"mine"`, "mine"},
	} {
		g := group(1)
		g[0].Reward = c.reward
		kept, _, err := answering(t, `{"index":0,"group":0,`+c.answer+`}`).Process(t.Context(), groups{g})
		if err != nil || len(kept) != 1 || kept[0][0].Reward.Valid || kept[0][0].Reward.Reason != c.want {
			t.Errorf("%+v, answered %s: %v, %v; want the reason %q", c.reward, c.answer, kept, err, c.want)
		}
	}
}

// Entries of info that come back unchanged keep their type and every bit of an integer. The
// operator adds new entries, and leaves siblings alone that share a map.
func TestAnswersChangeInfo(t *testing.T) {
	const hash = uint64(1<<63 + 1)
	g := group(1, 0)
	shared := map[string]any{"env_state_hash": hash, "n": 1, "deep": map[string]any{"a": []int{1}}}
	g[0].Info, g[1].Info = shared, shared
	g[0].Metrics = map[string]float64{"bad": math.NaN(), "m": 1}
	op := build(t, "starlark", args{"script": `
def process(group):
    group[0]["info"]["quality"] = 0.5
    group[0]["info"]["n"] = 2
    group[0]["metrics"]["judge"] = 1.5
    return group
`})
	kept, _, err := op.Process(t.Context(), groups{g})
	if err != nil || len(kept) != 1 || len(kept[0]) != 2 {
		t.Fatal(kept, err)
	}
	if e := g[0]; e.Info["env_state_hash"] != hash || e.Info["n"] != 2.0 || e.Info["quality"] != 0.5 ||
		e.Metrics["judge"] != 1.5 || e.Metrics["m"] != 1 || !math.IsNaN(e.Metrics["bad"]) {
		t.Errorf("info %v, metrics %v", e.Info, e.Metrics)
	}
	if len(shared) != 3 || shared["n"] != 1 || g[1].Info["n"] != 1 {
		t.Errorf("the sibling has %v", shared)
	}
}

func TestExecRunsAProgram(t *testing.T) {
	in := func() groups { return groups{group(1, 0), {}, group(failed, 0.5)} }
	kept, metrics, err := build(t, "exec", args{"command": program("echo")}).Process(t.Context(), in())
	if err != nil || !same(values(kept), [][]float64{{1, 0}, {failed, 0.5}}) || metrics["filtered_count"] != 0 {
		t.Errorf("echo: %v, %v, %v", values(kept), metrics, err)
	}
	for _, c := range []struct {
		program string
		more    args
		want    []string
	}{
		{"fail", nil, []string{os.Args[0] + " fail", "exit status 3", "it said: no model is loaded"}},
		{"nonsense", nil, []string{"nonsense", "answer 1"}},
		{"hang", args{"timeout": 0.5}, []string{"hang", "timeout = 0.5 s"}},
	} {
		a := args{"command": program(c.program)}
		for k, v := range c.more {
			a[k] = v
		}
		_, _, err := build(t, "exec", a).Process(t.Context(), in())
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", c.program, err, want)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, _, err := build(t, "exec", args{"command": program("hang")}).Process(ctx, in()); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that has ended: %v", err)
	}
}

func TestExecLimitsMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory is bounded on Linux")
	}
	// tail keeps its output in memory until the input ends
	hungry := args{"command": []any{"sh", "-c", "head -c 300000000 /dev/zero | tail -c 200000000 >/dev/null"}}
	if _, _, err := build(t, "exec", hungry).Process(t.Context(), groups{group(1)}); err != nil {
		t.Fatal(err)
	}
	hungry["max_memory_mb"] = 100
	if _, _, err := build(t, "exec", hungry).Process(t.Context(), groups{group(1)}); err == nil ||
		!strings.Contains(err.Error(), "it said: tail: ") {
		t.Errorf("got %v, want the program's own error of memory", err)
	}
}

func TestHTTPRetries(t *testing.T) {
	attempts := 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		attempts++
		switch {
		case r.Header.Get("Authorization") != "Bearer x" || r.Method != http.MethodPost:
			http.Error(w, "who are you", http.StatusForbidden)
		case attempts == 1:
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		case attempts == 2:
			http.Error(w, "too many", http.StatusTooManyRequests)
		default:
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(body)
		}
	})
	a := args{"url": url, "headers": args{"Authorization": "Bearer x"}, "max_retry_interval": 0.001}
	kept, _, err := build(t, "http", a).Process(t.Context(), groups{group(1, 0)})
	if err != nil || attempts != 3 || !same(values(kept), [][]float64{{1, 0}}) {
		t.Errorf("kept %v, %v after %d attempts", values(kept), err, attempts)
	}
	attempts, a["max_retry_times"] = 0, 1
	if _, _, err = build(t, "http", a).Process(t.Context(), groups{group(1)}); err == nil || attempts != 2 ||
		!strings.Contains(err.Error(), "attempt 2: 429 Too Many Requests: too many") {
		t.Errorf("got %v after %d attempts", err, attempts)
	}
	attempts, a["headers"] = 0, args{}
	if _, _, err = build(t, "http", a).Process(t.Context(), groups{group(1)}); err == nil || attempts != 1 ||
		!strings.Contains(err.Error(), "who are you") {
		t.Errorf("got %v after %d attempts", err, attempts)
	}
}

func TestHTTPHasADeadline(t *testing.T) {
	release := make(chan struct{})
	url := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	op := build(t, "http", args{"url": url, "timeout": 0.05, "max_retry_times": 0})
	if _, _, err := op.Process(t.Context(), groups{group(1)}); err == nil || !strings.Contains(err.Error(), "timeout = 0.05 s") {
		t.Errorf("got %v", err)
	}
}

func TestStarlarkEditsGroups(t *testing.T) {
	for _, c := range []struct {
		script string
		want   [][]float64
	}{
		{"def process(group): return group", [][]float64{{1, 0}, {failed}}},
		{"def process(group): return []", nil},
		{"def process(group): return [e for e in group if e['reward'] == None or e['reward'] > 0.5]", [][]float64{{1}, {failed}}},
		{"def process(group): return reversed(group)", [][]float64{{1, 0}, {failed}}}, // the step's order stays
		{"def process(group):\n  for e in group:\n    if e['reward'] != None: e['reward'] -= math.pow(e['response_tokens'], " +
			"2)\n  return group", [][]float64{{-3, -4}, {failed}}},
	} {
		kept, _, err := build(t, "starlark", args{"script": c.script}).Process(t.Context(), groups{prompted(group(1, 0)), nil, group(failed)})
		if err != nil || !same(values(kept), c.want) {
			t.Errorf("%s: got %v, %v; want %v", c.script, values(kept), err, c.want)
		}
	}
	g := group(1)
	if _, _, err := build(t, "starlark",
		args{"script": "def process(group):\n  group[0]['info']['new'] = 'x'\n  return group"}).Process(t.Context(),
		groups{g}); err != nil || g[0].Info["new"] != "x" {
		t.Errorf("the empty info is now %v, %v", g[0].Info, err)
	}
	for script, want := range map[string]string{
		"def process(group):\n  return 1":                                                 "want the list",
		"def process(group):\n  x = 1\n  return group[7]":                                 "script:3: list index 7 out of range",
		"def process(group):\n  for i in range(1000000000): pass":                         "max_steps = 10000",
		"def process(group):\n  for e in group: e['reward']=float('nan')\n  return group": "non-finite",
	} {
		_, _, err := build(t, "starlark", args{"script": script, "max_steps": 10000}).Process(t.Context(), groups{group(1)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", script, err, want)
		}
	}
}

// prompted gives the rollouts a prompt of one token and responses of two.
func prompted(g trinity.Group) trinity.Group {
	for _, e := range g {
		e.PromptLen = 1
	}
	return g
}
