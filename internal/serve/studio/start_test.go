package studio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	_ "github.com/trinity-go/trinity/standard"
)

// controlled serves the runs below a new directory, and starts a program in place of trinity.
func controlled(t *testing.T, program ...string) (dir string, s *httptest.Server) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	plan := func(cfg *config.Config) (*config.Plan, error) { return cfg.Plan(config.Facts{}) }
	s = httptest.NewServer((&Server{Dir: dir, Control: "secret", Program: program, Plan: plan, Every: time.Millisecond}).Handler())
	t.Cleanup(s.Close)
	return dir, s
}

// post sends JSON to a path below /api/v1/ with the token, and returns the status and the body.
func post(t *testing.T, s *httptest.Server, path string, body any, headers ...string) (int, string) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(t, s, "/api/v1/"+path, "secret", string(text), headers...)
}

// answerOf posts JSON with a token, and returns the status and the body.
func answerOf(t *testing.T, s *httptest.Server, path, token, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// small is a configuration that is right.
const small = `project: p
name: small # the comment stays
mode: train
model: {model_path: m, max_model_len: 64}
algorithm: {algorithm_type: sft}
buffer:
  train_batch_size: 4
  total_steps: 2
  trainer_input:
    experience_buffer: {storage_type: file, path: d.jsonl, format: {prompt_type: plaintext, prompt_key: q, response_key: a}}
`

// What checks, starts and stops needs the token, JSON and a page of the studio's own, and a studio that
// does more than show.
func TestPostsAreRefused(t *testing.T) {
	_, s := controlled(t, "false")
	_, readOnly := site(t, "")
	_, readOnlyToken := site(t, "secret")
	for _, path := range []string{
		"config/check", "config/plan", "runs", "runs/p%2Fsmall/stop", "runs/p%2Fsmall/resume",
		"runs/p%2Fsmall/advice", "talk", "talk/x/end", "talk/x/chat",
	} {
		for _, c := range []struct {
			what    string
			of      *httptest.Server
			headers []string
			status  int
			says    string
		}{
			{"no token", s, []string{"Authorization", ""}, 401, "token is missing"},
			{"another token", s, []string{"Authorization", "Bearer secre"}, 401, "token is missing"},
			{"a form", s, []string{"Content-Type", "text/plain"}, 415, "application/json"},
			{"a foreign page", s, []string{"Origin", "http://evil.example"}, 403, "refuses pages"},
			{"read-only", readOnly, nil, 403, "--read-only"},
			{"read-only with its token", readOnlyToken, nil, 403, "--read-only"},
		} {
			if status, text := post(t, c.of, path, configRequest{Text: small}, c.headers...); status != c.status || !strings.Contains(text, c.says) {
				t.Errorf("%s, %s: %d %s", path, c.what, status, text)
			}
		}
		bodies := []any{"no object"}
		if path != "talk/x/chat" { // which takes what OpenAI's API takes
			bodies = append(bodies, map[string]any{"txet": small})
		}
		for _, body := range bodies {
			if status, text := post(t, s, path, body); status != http.StatusBadRequest || !strings.Contains(text, "no such JSON") {
				t.Errorf("%s, %v: %d %s", path, body, status, text)
			}
		}
	}
}

func posts[T any](t *testing.T, s *httptest.Server, path string, body any) (reply T) {
	t.Helper()
	status, text := post(t, s, path, body)
	if err := json.Unmarshal([]byte(text), &reply); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, text)
	}
	return reply
}

// An error has its line and key, and a right configuration what it sets. Secrets are stars.
func TestCheckNamesLines(t *testing.T) {
	_, s := controlled(t)
	got := posts[checked](t, s, "config/check", configRequest{Text: strings.Replace(small, "train_batch_size", "train_batch_sise", 1)})
	if n := len(got.Errors); n == 0 || got.Errors[n-1].Line != 7 || got.Errors[n-1].Key != "buffer.train_batch_sise" ||
		!strings.Contains(got.Errors[n-1].Text, `did you mean "train_batch_size"`) {
		t.Errorf("%+v", got)
	}
	got = posts[checked](t, s, "config/check", configRequest{Text: "a: [", Overrides: []string{"mode=train"}})
	if len(got.Errors) != 1 || got.Errors[0].Line == 0 {
		t.Errorf("%+v", got)
	}
	got = posts[checked](t, s, "config/check", configRequest{Text: small, Overrides: []string{"mode=trane"}})
	if len(got.Errors) == 0 || got.Errors[0].Line != 0 || got.Errors[0].Key != "mode" {
		t.Errorf("%+v", got)
	}
	got = posts[checked](t, s, "config/check", configRequest{Text: small + "ray_namespace: x\nexplorer: {env_vars: {KEY: hush}}\n"})
	if len(got.Errors) != 0 || len(got.Stages) != 1 || got.Stages[0].Settings["buffer.total_steps"] != 2.0 ||
		fmt.Sprint(got.Stages[0].Settings["explorer.env_vars.KEY"]) == "hush" {
		t.Errorf("%+v", got)
	}
	planned := posts[struct {
		Errors []problem
		Text   string
	}](t, s, "config/plan", configRequest{Text: small})
	if len(planned.Errors) != 0 || !strings.Contains(planned.Text, "2 steps of 4 experiences") {
		t.Errorf("%+v", planned)
	}
}

func TestSchemaKnowsTheKeys(t *testing.T) {
	_, s := controlled(t)
	keys := map[string]schemaKey{}
	schema := got[struct {
		Keys    []schemaKey
		Plugins map[string]map[string][]schemaKey
	}](t, s, "config/schema")
	for _, k := range schema.Keys {
		keys[k.Key] = k
	}
	for key, want := range map[string][3]string{
		"mode": {"string", "both", "What the program does"}, "algorithm.algorithm_type": {"string", "ppo", "algorithm"},
		"buffer.explorer_input.tasksets.*.path": {"string", "", ""},
	} {
		if k := keys[key]; k.Type != want[0] || k.Default != want[1] || !strings.Contains(k.Doc, want[2]) {
			t.Errorf("%s: %+v", key, k)
		}
	}
	if of := keys["algorithm.advantage_fn_args"].ArgsOf; of != "advantage_fn" || keys["algorithm.advantage_fn"].Plugin != "advantage_fn" {
		t.Errorf("the arguments of an advantage are those of %q", of)
	}
	if args := schema.Plugins["advantage_fn"]["opmd"]; len(args) != 2 || args[1].Limits != "more than 0" || len(args[0].Values) != 2 {
		t.Errorf("opmd: %+v", args)
	}
	if len(keys["mode"].Values) < 5 || len(keys["algorithm.algorithm_type"].Values) < 20 {
		t.Errorf("values %q, %q", keys["mode"].Values, keys["algorithm.algorithm_type"].Values)
	}
}

// A run starts in a process of its own whose output is the log; it is the studio's again after the studio
// has started anew. What was started from is given back without secrets.
func TestStart(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no sh")
	}
	dir, s := controlled(t, "/bin/sh", "-c", `printf 'half é\n'; printf '%s\n' "$@"; sleep 0.01`, "sh")
	secret := small + "explorer: {env_vars: {KEY: hush}}\n"
	if reply := posts[map[string]string](t, s, "runs", configRequest{Text: secret, Overrides: []string{"seed=7"}}); reply["id"] != "p/small" {
		t.Fatal(reply)
	}
	file := filepath.Join(dir, ".studio", "p", "small", "config.yaml")
	want := "half é\n" + file + "\nseed=7\ncheckpoint_root_dir=\"" + dir + "\"\n"
	type piece struct {
		Text   string
		Cursor int64
		Reset  bool
	}
	var read piece
	end := time.Now().Add(time.Minute)
	for ; !strings.HasSuffix(read.Text, want) && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		read = got[piece](t, s, "runs/p%2Fsmall/log")
	}
	if !strings.HasPrefix(read.Text, "--- started") || !strings.HasSuffix(read.Text, want) || !read.Reset {
		t.Errorf("the log has %q", read.Text)
	}
	if next := got[piece](t, s, fmt.Sprintf("runs/p%%2Fsmall/log?since=%d", read.Cursor-7)); next.Reset || len(next.Text) != 7 {
		t.Errorf("the end of the log is %+v", next)
	}
	for _, name := range []string{"config.yaml", "start.json", "run.log"} {
		if info, err := os.Stat(filepath.Join(filepath.Dir(file), name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	again := serve(t, dir, "")
	config := got[configRequest](t, again, "runs/p%2Fsmall/config")
	if strings.Contains(config.Text, "hush") || !strings.Contains(config.Text, "# the comment stays") || config.Overrides[0] != "seed=7" {
		t.Errorf("the configuration is %+v", config)
	}
	if runs := got[listed](t, again, "runs"); len(runs.Runs) != 0 {
		t.Errorf("the studio's files are runs: %+v", runs)
	}
	for what, c := range map[string]struct {
		in   configRequest
		says string
	}{
		"outside":          {configRequest{Text: small, Overrides: []string{"checkpoint_root_dir=" + t.TempDir()}}, "does not show"},
		"dots":             {configRequest{Text: small, Overrides: []string{"project=../../.."}}, "project"},
		"the studio's own": {configRequest{Text: small, Overrides: []string{"project=.studio"}}, ""},
		"wrong":            {configRequest{Text: small + "nmae: x\n"}, "config.yaml:11:1: nmae"},
		"stars":            {configRequest{Text: small + "explorer: {env_vars: {KEY: '***'}}\n"}, "is hidden"},
		"stars of a URL":   {configRequest{Text: strings.Replace(small, "d.jsonl", "'postgres://me:***@db/x'", 1)}, "path is hidden"},
		"arguments":        {configRequest{Text: small, Overrides: []string{"explorer.env_vars.KEY=hush"}}, "is a secret"},
		"nothing":          {configRequest{}, "give the text"},
		"no run":           {configRequest{Run: "../x"}, "no run"},
	} {
		status, text := post(t, s, "runs", c.in)
		if status/100 != 4 || !strings.Contains(text, c.says) || strings.Contains(text, "hush") {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	put(t, dir, "p/small/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	if status, text := post(t, s, "runs", configRequest{Text: small}); status != 400 || !strings.Contains(text, "there is a run") {
		t.Errorf("%d %s", status, text)
	}
	for _, path := range []string{"runs/..%2F..%2Fetc/log", "runs/..%2Fx/config", "runs/none/log", "runs/.studio%2Fp%2Fsmall"} {
		if status, text := get(t, s, "/api/v1/"+path); status != 404 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// Of eight starts of one name at once one begins, and the files are its own.
func TestOneOfSeveralStartsBegins(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no sh")
	}
	// $0 is in DIR/.studio/p/small
	dir, s := controlled(t, "/bin/sh", "-c",
		`job=${0%/.studio/*}/p/small; sleep 0.2; mkdir -p "$job"; echo "$1" >> "$job/seed.new"; mv "$job/seed.new" "$job/seed"`)
	job := filepath.Join(dir, "p", "small")
	var all sync.WaitGroup
	status := make([]int, 8)
	for i := range status {
		all.Go(func() {
			status[i], _ = post(t, s, "runs", configRequest{Text: small, Overrides: []string{fmt.Sprintf("seed=%d", i)}})
		})
	}
	all.Wait()
	var won []string
	for i, code := range status {
		if code == http.StatusOK {
			won = append(won, fmt.Sprintf("seed=%d", i))
		}
	}
	end := time.Now().Add(time.Minute)
	for _, err := os.Stat(filepath.Join(job, "seed")); err != nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		_, err = os.Stat(filepath.Join(job, "seed"))
	}
	began, err := os.ReadFile(filepath.Join(job, "seed"))
	kept := got[configRequest](t, s, "runs/p%2Fsmall/config")
	if err != nil || len(won) != 1 || string(began) != won[0]+"\n" || kept.Overrides[0] != won[0] {
		t.Errorf("started %v, began %q with %v kept: %v", won, began, kept.Overrides, err)
	}
}

// A copied directory may name any process as its holder: the studio signals none that is not trinity.
func TestStopSignalsNoForeignProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells what a process is")
	}
	dir, s := controlled(t)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	foreign := exec.CommandContext(t.Context(), "sleep", "60")
	if err := foreign.Start(); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "r/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	for holder, says := range map[string]string{
		fmt.Sprintf(`{"pid":%d,"host":%q,"since":%q}`, foreign.Process.Pid, host, time.Now().Format(time.RFC3339)): "no process of the run",
		fmt.Sprintf(`{"pid":7,"host":"elsewhere","since":%q}`, time.Now().Format(time.RFC3339)):                    "process 7 on elsewhere",
		`{"pid":0}`: "not at work",
	} {
		put(t, dir, "r/.holder_trainer.json", holder)
		if status, text := post(t, s, "runs/r/stop", stopping{}); status != 400 || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s", holder, status, text)
		}
	}
	if err := foreign.Process.Kill(); err != nil {
		t.Error(err)
	}
	var end *exec.ExitError
	if err := foreign.Wait(); !errors.As(err, &end) || end.String() != "signal: killed" {
		t.Errorf("the foreign process ended by %v", err)
	}
}

// A second stop needs the word "now", but not that of a later process that has got the same number.
func TestStopKnowsLaterProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells what a process is")
	}
	dir, s := controlled(t)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "/bin/sh", "-c", `trap "" INT; echo ready; read end`)
	child.Args[0] = "trinity"
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait() // it ends when its input does
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "r/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	began := time.Now()
	for i, c := range []struct {
		since  time.Time
		status int
	}{{began, 200}, {began, 400}, {began.Add(time.Second), 200}} {
		text, err := json.Marshal(durable.Held{PID: child.Process.Pid, Host: host, Since: c.since})
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, "r/.holder_trainer.json", string(text))
		if status, text := post(t, s, "runs/r/stop", stopping{}); status != c.status {
			t.Errorf("stop %d: %d %s", i, status, text)
		}
	}
}
