package finetune

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/config"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

func anyItem(map[string]any) error { return nil }

// check checks rows of a method as a job does.
func check(t *testing.T, method, text string) (int, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return checkRows(path, method, anyItem)
}

const (
	pair = `{"input":{"messages":[{"role":"user","content":"a"}],"tools":[],"parallel_tool_calls":true},` +
		`"preferred_output":[{"role":"assistant","content":"b"}],"non_preferred_output":[{"role":"assistant","content":"c"}]}` + "\n"
	task = `{"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]}],"answer":4}` + "\n"
)

func TestRowsAreChecked(t *testing.T) {
	called := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{}]},` +
		`{"role":"tool","content":"b"},{"role":"assistant","content":"c","weight":1}],"tools":[]}` + "\n"
	for method, text := range map[string]string{
		wire.Supervised: chat + "\n" + called, wire.DPO: pair + pair, wire.Reinforcement: task + task,
	} {
		if n, err := check(t, method, text); n != 2 || err != nil {
			t.Errorf("%s: %d rows, %v", method, n, err)
		}
	}
	user := func(rest string) string { return `{"messages":[{"role":"user","content":"a"}` + rest + `]}` }
	for _, c := range []struct{ method, text, want string }{
		{wire.Supervised, "", "the file has no rows"},
		{wire.Supervised, "\n \n", "the file has no rows"},
		{wire.Supervised, chat + "{", "line 2: want a JSON object"},
		{wire.Supervised, chat + "\n[1]", "line 3: want a JSON object"},
		{wire.Supervised, "null", "line 1: want a JSON object"},
		{wire.Supervised, chat + "\xff", "line 2: the text is not UTF-8"},
		{wire.Supervised, "\xef\xbb\xbf" + chat, "line 1: the file begins with a byte order mark"},
		{wire.Supervised, chat + strings.Repeat("x", maxLine+1), "line 2: the line has more than 16 MiB"},
		{wire.Supervised, `{"messages":[],"answer":1}`, `line 1: "answer": no such key`},
		{wire.Supervised, `{"e":1,"d":1,"c":1,"b":1,"a":1}`, `line 1: "a": no such key`},
		{wire.Supervised, `{"messages":[],"functions":[]}`, "line 1: functions: send tools"},
		{wire.Supervised, `{"messages":{}}`, "line 1: messages: want a list"},
		{wire.Supervised, `{"tools":[]}`, "line 1: messages: want a list"},
		{wire.Supervised, user(``), "line 1: messages: none of the assistant's is learnt"},
		{wire.Supervised, user(`,{"role":"assistant","content":"b","weight":0}`), "line 1: messages: none of the assistant's is learnt"},
		{wire.Supervised, user(`,{"role":"assistant","content":"b","weight":0.5}`), "line 1: messages[1].weight: want 0 or 1"},
		{wire.Supervised, user(`,{"role":"asistant","content":"b"}`), "line 1: messages[1].role: want system"},
		{wire.Supervised, user(`,{"role":"developer","content":"b"}`), "line 1: messages[1].role: chat templates have no developer"},
		{wire.Supervised, user(`,{"role":"assistant","content":null}`), "line 1: messages[1].content: want a text"},
		{wire.Supervised, user(`,{"role":"assistant","content":[{"type":"image_url"}]}`),
			"line 1: messages[1].content[0].type: models read text"},
		{wire.Reinforcement, user(`,{"role":"assistant","content":"b"}`), "line 1: messages[1].role: the last message is the user's"},
		{wire.Supervised, `{"messages":[],"tools":[],"messages":[]}`, `line 1: "messages": the key is there twice`},
		{wire.DPO, strings.Replace(pair, `"c"`, `"b"`, 1), "line 1: non_preferred_output: it is the same as preferred_output"},
		{wire.DPO, chat, `line 1: "messages": no such key`},
		{wire.DPO, pair + `{"input":{}}`, "line 2: input.messages: want a list"},
		{wire.DPO, `{"input":[]}`, "line 1: input: want an object"},
		{wire.DPO, `{"input":{"prompt":""}}`, `line 1: input: "prompt": no such key`},
		{wire.DPO, strings.Replace(pair, `"non_preferred_output":[{"role":"assistant"`, `"non_preferred_output":[{"role":"user"`, 1),
			"line 1: non_preferred_output[0].role: the last message is the assistant's"},
	} {
		if _, err := check(t, c.method, c.text); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s of %.100s: %v, want %s", c.method, c.text, err, c.want)
		}
	}
}

// What auto means, by the number of rows.
func TestAutomaticNumbers(t *testing.T) {
	for _, c := range []struct {
		method string
		rows   int
		want   settled
	}{
		{wire.Supervised, 10, settled{Epochs: 3, Batch: 1, Steps: 30, Every: 3, Rate: 2e-4}},
		{wire.Supervised, 500, settled{Epochs: 3, Batch: 4, Steps: 375, Every: 37, Rate: 2e-4}},
		{wire.DPO, 100000, settled{Epochs: 3, Batch: 32, Steps: 9375, Every: 937, Rate: 2e-5}},
		{wire.Reinforcement, 4, settled{Epochs: 10, Batch: 4, Steps: 10, Every: 1, Rate: 1e-4}},
		{wire.Reinforcement, 100, settled{Epochs: 3, Batch: 8, Steps: 37, Every: 3, Rate: 1e-4}},
		{wire.Reinforcement, 1000, settled{Epochs: 1, Batch: 8, Steps: 125, Every: 12, Rate: 1e-4}},
	} {
		got, err := settle(c.method, &wire.Hyperparameters{}, c.rows, 1000)
		c.want.Beta, c.want.Samples, c.want.Reply = 0.1, 1, 500
		if err != nil || got != c.want {
			t.Errorf("%d rows, %s: %+v, want %+v; %v", c.rows, c.method, got, c.want, err)
		}
	}
	_, err := settle(wire.DPO, &wire.Hyperparameters{BatchSize: number(3)}, 2, 9)
	if err == nil || !strings.Contains(err.Error(), "at most the rows of the training file, 2, got 3") {
		t.Errorf("%v", err)
	}
	for _, v := range []float64{0, -1, math.Inf(1)} {
		if _, err := settle(wire.DPO, &wire.Hyperparameters{Beta: number(v)}, 2, 9); err == nil {
			t.Errorf("beta %g is taken", v)
		}
	}
}

func number(v float64) *wire.Number { n := wire.Number(v); return &n }

// The configurations of all methods are right. What a client writes in a grader stays text.
func TestConfigurationsOfJobs(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SERVICE", "hidden")
	c := serve(t, "", func(o *Options) { o.Bases[0].Path = "../../../examples/quickstart/model" })
	const check = `{"type":"string_check","name":"c","operation":"eq","input":"{{ sample.output_text }}","reference":%s}`
	validation := "file-v"
	for _, method := range []string{wire.Supervised, wire.DPO, wire.Reinforcement} {
		for _, reference := range []string{`"b"`, `"${oc.env:SECRET_OF_THE_SERVICE}"`, `"\\${oc.env:SECRET_OF_THE_SERVICE} yes: [1]"`} {
			j := &job{dir: t.TempDir(), Base: "org/tiny", Job: wire.Job{ID: "ftjob-x", Model: "org/tiny", Seed: 7, ValidationFile: &validation}}
			j.Method = wire.Method{Type: method}
			place, _ := j.Method.Terms()
			grader := strings.Replace(check, "%s", reference, 1)
			multi := `{"type":"multi","name":"m","calculate_output":"a","graders":{"a":` + grader + `}}`
			*place = &wire.MethodTerms{Hyperparameters: &wire.Hyperparameters{}, Grader: json.RawMessage(multi)}
			numbers, err := settle(method, (*place).Hyperparameters, 100, 64)
			if err != nil {
				t.Fatal(err)
			}
			c.s.opts.TrainerArgs = map[string]any{"env": map[string]any{"A": "b: c"}}
			text, err := c.s.opts.configure(j, &numbers)
			if err != nil || !strings.Contains(string(text), `trainer_args: {"env":{"A":"b: c"}}`+"\n  save_interval") {
				t.Fatalf("with an argument of the trainer: %v\n%s", err, text)
			}
			c.s.opts.TrainerArgs = nil
			if text, err = c.s.opts.configure(j, &numbers); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Parse("config.yaml", text, config.Options{})
			if err != nil {
				t.Fatalf("%s: %v\n%s", method, err, text)
			}
			if method != wire.Reinforcement {
				continue
			}
			object := cfg.Buffer.ExplorerInput.Taskset.RewardFnArgs["grader"].(map[string]any)
			got := object["graders"].(map[string]any)["a"].(map[string]any)["reference"]
			var want string
			if err := json.Unmarshal([]byte(reference), &want); err != nil || got != want {
				t.Errorf("the reference is %q, want %q", got, want)
			}
		}
	}
}

// Graders of requests run, and their failures have the names of the API.
func TestGradersRun(t *testing.T) {
	c := serve(t, "", nil)
	check := map[string]any{
		"type": "string_check", "name": "c", "operation": "eq", "input": "{{ sample.output_text }}", "reference": "{{ item.answer }}",
	}
	multi := map[string]any{"type": "multi", "name": "m", "calculate_output": "2 * a", "graders": map[string]any{"a": check}}
	run := func(grader any, item any) map[string]any {
		t.Helper()
		return c.good("", "POST", "fine_tuning/alpha/graders/run", map[string]any{"grader": grader, "model_sample": "4", "item": item})
	}
	failed := func(reply map[string]any) (names []string) {
		for name, value := range reply["metadata"].(map[string]any)["errors"].(map[string]any) {
			if value == true {
				names = append(names, name)
			}
		}
		return names
	}
	r := run(multi, map[string]any{"answer": "4"})
	if r["reward"] != 2.0 || r["sub_rewards"].(map[string]any)["a"] != 1.0 || len(failed(r)) != 0 {
		t.Errorf("%v", r)
	}
	r = run(multi, map[string]any{})
	if names := failed(r); r["reward"] != nil || len(names) != 1 || names[0] != "invalid_variable_error" {
		t.Errorf("a failure is no reward: %v", r)
	}
	r = c.good("", "POST", "fine_tuning/alpha/graders/validate", map[string]any{"grader": check})
	if r["grader"].(map[string]any)["name"] != "c" {
		t.Errorf("%v", r)
	}
	check["operation"] = "is"
	c.refused("", "POST", "fine_tuning/alpha/graders/validate", map[string]any{"grader": check}, 400, "grader.operation")
	c.refused("", "POST", "fine_tuning/alpha/graders/run", map[string]any{"grader": check}, 400, "grader.operation")
	question := map[string]any{"role": "user", "content": "?"}
	asks := map[string]any{
		"type": "score_model", "name": "s", "model": "org/tiny", "input": []any{question},
		"sampling_params": map[string]any{"seed": 5, "top_p": 0.5, "max_completions_tokens": 9},
	}
	question["content"] = `{"score": {{ sample.output_text }}}`
	asks["range"] = []int{0, 5}
	r = run(asks, nil)
	about := r["metadata"].(map[string]any)
	if r["reward"] != 4.0 || about["token_usage"] != 7.0 || about["sampled_model_name"] != "org/tiny" ||
		fmt.Sprint(r["model_grader_token_usage_per_model"]) != "map[org/tiny:7]" {
		t.Errorf("%v", r)
	}
	question["content"] = "fail"
	r = run(asks, nil)
	about = r["metadata"].(map[string]any)
	details, _ := about["errors"].(map[string]any)["model_grader_server_error_details"].(string)
	if names := failed(r); r["reward"] != nil || len(names) != 1 || !strings.Contains(details, "it failed") {
		t.Errorf("%v", r)
	}
	asks["model"] = "gpt"
	c.refused("", "POST", "fine_tuning/alpha/graders/run", map[string]any{"grader": asks}, 400, "asks the model \"gpt\", which")
	c.refused("", "POST", "fine_tuning/alpha/graders/run", map[string]any{"grader": 1}, 400, "want a grader object")
	check["operation"] = "eq"
	multi["calculate_output"] = "a+"
	c.refused("", "POST", "fine_tuning/alpha/graders/validate", map[string]any{"grader": multi}, 400, "calculate_output: formula_parse_error")
	nested := any(check)
	for range 9 {
		nested = map[string]any{"type": "multi", "name": "m", "calculate_output": "a", "graders": map[string]any{"a": nested}}
	}
	c.refused("", "POST", "fine_tuning/alpha/graders/validate", map[string]any{"grader": nested}, 400, "more than 8 multi graders")
	was := grading
	grading = 100 * time.Millisecond
	t.Cleanup(func() { grading = was })
	asks["model"], question["content"] = "org/tiny", "wait"
	r = run(asks, nil)
	if names := failed(r); r["reward"] != nil || len(names) != 1 || names[0] != "model_grader_server_error" {
		t.Errorf("%v", r)
	}
}

// Rows of any bytes give a number of rows or one line about what is wrong.
func FuzzRows(f *testing.F) {
	for _, text := range []string{
		chat, pair, task, chat + "{", "\xef\xbb\xbf{}", `{"messages":[null]}`, `{"input":{"messages":[{"role":[]}]}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, method := range []string{wire.Supervised, wire.DPO, wire.Reinforcement} {
			if n, err := check(t, method, text); err == nil && n == 0 || err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%d rows, %v", n, err)
			}
		}
	})
}

// A form of any bytes gives a file or an error.
func FuzzForm(f *testing.F) {
	for _, pairs := range [][]string{{"purpose", "batch", "file", "x"}, {"file", ""}, {"purpose", "x", "purpose", "y"}} {
		f.Add(formOf(pairs...).text.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		boundary, _, _ := strings.Cut(strings.TrimPrefix(text, "--"), "\r\n")
		fields, err := readForm(multipart.NewReader(bytes.NewReader([]byte(text)), boundary), "file", io.Discard)
		if err != nil {
			return
		}
		out, err := describe(fields)
		if err == nil && (out.Purpose == "" || strings.ContainsAny(out.Filename, "/\n")) {
			t.Errorf("%+v", out)
		}
	})
}
