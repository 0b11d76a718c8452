package reward

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/sandbox"
	"github.com/trinity-go/trinity/registry"
)

// grade scores a reply with a grader object in JSON, and returns the reward as text.
func (b *bench) grade(t *testing.T, object, reply string) string {
	t.Helper()
	var spec map[string]any
	if err := json.Unmarshal([]byte(object), &spec); err != nil {
		t.Fatal(err)
	}
	in := b.group(reply)[0]
	in.Task = &trinity.Task{Row: map[string]any{
		"answer": "four", "n": 4, "list": []any{map[string]any{"a": "x"}}, "deep": map[string]any{"key": "Four"}}}
	in.Messages = []trinity.Message{{Role: "user", Content: "2+2?"},
		{Role: "assistant", Content: reply, ToolCalls: json.RawMessage(`[{"id": "c", "function": {"name": "f"}}]`)}}
	r, err := build(t, "grader_reward", map[string]any{"grader": spec, "isolation": "none"}).Score(t.Context(), in)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case !r.Valid:
		return "invalid: " + r.Reason
	}
	return fmt.Sprintf("%.4g%v", r.Value, r.Parts)
}

func TestGradersOfTextsAndFormulas(t *testing.T) {
	const check = `{"type": "string_check", "name": "c", "input": %q, "operation": %q, "reference": %q}`
	for _, c := range []struct{ object, reply, want string }{
		{fmt.Sprintf(check, "{{ sample.output_text }}", "eq", "{{item.answer}}"), "four", "1map[c:1]"},
		{fmt.Sprintf(check, "{{sample.output_text}}", "ne", "{{item.answer}}"), "four", "0map[c:0]"},
		{fmt.Sprintf(check, "{{sample.output_text}}", "like", "{{item.deep.key}}"), "It is four.", "0map[c:0]"},
		{fmt.Sprintf(check, "{{sample.output_text}}", "ilike", "{{item.deep.key}}"), "It is four.", "1map[c:1]"},
		{fmt.Sprintf(check, "n={{sample.output_json.n}} {{ item.list[0].a }}", "eq", "n={{item.n}} x"), `{"n": 4}`, "1map[c:1]"},
		{fmt.Sprintf(check, "{{sample.output_tools[0].function.name}}", "eq", "f"), "", "1map[c:1]"},
		{fmt.Sprintf(check, "{{sample.choices[0].message.content}}", "eq", "hm"), "hm", "1map[c:1]"},
		{fmt.Sprintf(check, "{{item.list}}", "eq", `[{"a":"x"}]`), "", "1map[c:1]"},
		{fmt.Sprintf(check, "{{item.nothing}}", "eq", "x"), "",
			`invalid: grader c: invalid_variable_error: {{ item.nothing }}: there is no "nothing"`},
		{fmt.Sprintf(check, "{{item.list[1]}}", "eq", "x"), "", "invalid: grader c: invalid_variable_error"},
		{fmt.Sprintf(check, "{{row.n}}", "eq", "x"), "", "invalid: grader c: invalid_variable_error"},
		{fmt.Sprintf(check, "{{sample.output_text", "eq", "x"), "x", "invalid: grader c: invalid_variable_error"},
		{fmt.Sprintf(check, "{{sample.output_json.n}}", "eq", "x"), "four", "invalid: grader c: sample_parse_error"},
		{`{"type": "text_similarity", "name": "s", "input": "{{sample.output_text}}", "reference": "the {{item.answer}}",
			"evaluation_metric": "rouge_1"}`,
			"the five", "0.5map[s:0.5]"},
		{`{"type": "multi", "name": "m", "calculate_output": "0.5 * a + max(b, 0) ^ 2 - sqrt(4) + floor(1.5)", "graders": {
			"a": {"type": "string_check", "name": "x", "input": "{{sample.output_text}}", "operation": "eq", "reference": "four"},
			"b": {"type": "text_similarity", "name": "x", "input": "{{sample.output_text}}", "reference": "four",
				"evaluation_metric": "fuzzy_match"}}}`,
			"four", "0.5map[a:1 b:1 m:0.5]"},
		{`{"type": "multi", "name": "m", "calculate_output": "log(a)", "graders": {"a": {"type": "string_check", "input": "x",
			"operation": "eq", "reference": "y"}}}`, "", "invalid: grader m: other_error: the score is -Inf"},
		{`{"type": "multi", "name": "m", "calculate_output": "1 - a", "graders": {"type": "string_check", "name": "a", "input": "x",
			"operation": "eq", "reference": "y"}}`, "", "1map[a:0 m:1]"},
	} {
		if got := (&bench{}).grade(t, c.object, c.reply); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s of %q: %s, want %s", c.object, c.reply, got, c.want)
		}
	}
}

func TestModelGraders(t *testing.T) {
	const (
		score = `{"type": "score_model", "name": "s", "model": "j", "range": [1, 5], "sampling_params": {"temperature": 0},
			"input": [{"role": "developer", "content": "Be strict."},
			{"role": "user", "content": [{"type": "input_text", "text": "Is {{sample.output_text}} like "}, "{{item.answer}}?"]}]}`
		label = `{"type": "multi", "name": "m", "calculate_output": "l", "graders": {"l": {"type": "label_model", "name": "l", "model": "j",
			"labels": ["good", "bad", "ugly"], "passing_labels": ["good"], "input": [{"role": "user", "content": "{{sample.output_text}}"}]}}}`
	)
	away := func(reason trinity.AskReason) error { return trinity.NoAnswer("j", reason, errors.New("why")) }
	for _, c := range []struct {
		object, answer string
		err            error
		want           string
	}{
		{score, `{"score": 4}`, nil, "4map[s:4]"},
		{score, `{"score": 6}`, nil, "invalid: grader s: model_grader_parse_error: model j: unreadable"},
		{score, "", away(trinity.AskRefused), "invalid: grader s: model_grader_refusal_error"},
		{score, "", away(trinity.AskTimedOut), "invalid: grader s: model_grader_server_error"},
		{score, "", away(trinity.AskUnreachable), "invalid: grader s: model_grader_server_error"},
		{score, "", &trinity.EngineError{Err: errors.New("away")}, "error: grader s: engine: away"},
		{label, `{"label": "good"}`, nil, "1map[l:1 m:1]"},
		{label, `{"label": "bad"}`, nil, "0map[l:0 m:0]"},
		{label, `{"label": "fine"}`, nil, "invalid: grader m: grader l: model_grader_parse_error"},
	} {
		b := &bench{answer: func(string) (string, error) { return c.answer, c.err }}
		if got := b.grade(t, c.object, "3"); !strings.HasPrefix(got, c.want) {
			t.Errorf("answer %s, %v: %s, want %s", c.answer, c.err, got, c.want)
		}
		if c.object == score && !strings.HasPrefix(b.questions[0], "Is 3 like four?\n\nAnswer with one JSON object") {
			t.Errorf("asked %q", b.questions[0])
		}
	}
}

func TestPythonGrader(t *testing.T) {
	if _, err := sandbox.New("none"); err != nil {
		t.Skip(err)
	}
	const object = `{"type": "python", "name": "p", "source": %q}`
	const broken = "invalid: grader p: python_grader_runtime_error: "
	for _, c := range [][2]string{
		{"def grade(sample, item):\n  print('noise')\n  return len(sample['output_text']) / item['n']", "0.25map[p:0.25]"},
		{"def grade(sample, item):\n  return float(sample['output_json'] == 3 and sample['choices'][0]['index'] == 0)", "1map[p:1]"},
		{"def grade(sample, item):\n  return item['absent']", broken + "status 1 : KeyError: 'absent'"},
		{"def grade(sample, item):\n  return float('nan')", broken + "status 1 : ValueError"},
		{"def grad(sample, item): pass", broken + "status 1 : KeyError: 'grade'"},
		{"import os\nos._exit(0)", broken + "status 0"},
		{"import os\ndef grade(sample, item):\n  os.system('echo 9')\n  os.write(1, b'9')\n  return 0.25", "0.25map[p:0.25]"},
	} {
		source, want := c[0], c[1]
		if got := (&bench{}).grade(t, fmt.Sprintf(object, source), "3"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}

// What an object lacks is found before the run.
func TestGraderObjectsAreChecked(t *testing.T) {
	for want, object := range map[string]string{
		"grader.type":                        `{"type": "endpoint", "name": "x"}`,
		`grader: unknown field "evaluation"`: `{"type": "string_check", "evaluation": "x"}`,
		"grader.operation":                   `{"type": "string_check", "input": "a", "reference": "b", "operation": "is"}`,
		"grader.input and reference":         `{"type": "string_check", "input": ["a"], "reference": "b", "operation": "eq"}`,
		"compares embeddings":                `{"type": "text_similarity", "input": "a", "reference": "b", "evaluation_metric": "cosine"}`,
		"grader.evaluation_metric":           `{"type": "text_similarity", "input": "a", "reference": "b", "evaluation_metric": "x"}`,
		"grader.model":                       `{"type": "score_model", "input": [{"role": "user", "content": "x"}]}`,
		"grader.range":                       `{"type": "score_model", "model": "j", "range": [1], "input": [{"role": "user", "content": "x"}]}`,
		"grader.input.0.role":                `{"type": "score_model", "model": "j", "input": [{"role": "tool", "content": "x"}]}`,
		"models read text": `{"type": "score_model", "model": "j",
			"input": [{"role": "user", "content": {"type": "input_image"}}]}`,
		"passing_labels":             `{"type": "label_model", "model": "j", "labels": ["a", "b"], "passing_labels": ["c"], "input": []}`,
		`unknown field "top_k"`:      `{"type": "score_model", "model": "j", "sampling_params": {"top_k": 1}, "input": []}`,
		"sampling_params.top_p":      `{"type": "score_model", "model": "j", "sampling_params": {"top_p": 2}, "input": []}`,
		"sampling_params.temper":     `{"type": "score_model", "model": "j", "sampling_params": {"temperature": -1}, "input": []}`,
		"sampling_params.max_comp":   `{"type": "score_model", "model": "j", "sampling_params": {"max_completions_tokens": -1}, "input": []}`,
		"no levels of effort":        `{"type": "score_model", "model": "j", "sampling_params": {"reasoning_effort": "low"}, "input": []}`,
		"grader.source":              `{"type": "python"}`,
		"grader.graders: want a map": `{"type": "multi", "graders": []}`,
		"formula_parse_error":        `{"type": "multi", "graders": {"a": {"type": "python", "source": "x"}}, "calculate_output": "a +"}`,
		"the name \"a-b\"":           `{"type": "multi", "graders": {"a-b": {"type": "python", "source": "x"}}, "calculate_output": "1"}`,
		"grader.graders.a.source":    `{"type": "multi", "graders": {"a": {"type": "python"}}, "calculate_output": "a"}`,
	} {
		var spec map[string]any
		if err := json.Unmarshal([]byte(object), &spec); err != nil {
			t.Fatal(err)
		}
		_, err := registry.Rewards.Build("grader_reward", map[string]any{"grader": spec, "isolation": "none"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", object, err, want)
		}
	}
	if _, err := registry.Rewards.Build("grader_reward", nil); err == nil {
		t.Error("no grader is a grader")
	}
}

// A template that names a column that the rows lack is found before the run.
func TestGraderTemplatesAreChecked(t *testing.T) {
	object := func(column string) map[string]any {
		check := map[string]any{
			"type": "string_check", "input": "{{ sample.output_json.x }}", "operation": "eq", "reference": "{{ item." + column + " }}"}
		message := map[string]any{"role": "user", "content": "{{item.a}} {{item." + column + "}}"}
		ask := map[string]any{"type": "score_model", "model": "j", "input": []any{message}}
		return map[string]any{"grader": map[string]any{
			"type": "multi", "calculate_output": "c + m", "graders": map[string]any{"c": check, "m": ask}}}
	}
	row := &trinity.Task{Row: map[string]any{"a": 1, "b": "x"}}
	for column, want := range map[string]string{"b": "", "c": `there is no "c"`} {
		err := trinity.RequirementsOf(build(t, "grader_reward", object(column))).CheckTask(row)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("column %s: %v", column, err)
		}
	}
}
