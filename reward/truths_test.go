package reward

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// rowOf returns a task with a truth as a row of a dataset has it.
func rowOf(t *testing.T, truth string) *trinity.Task {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(`{"a": ` + truth + `}`))
	d.UseNumber()
	task := &trinity.Task{Format: trinity.TaskFormat{ResponseKey: "a"}}
	if err := d.Decode(&task.Row); err != nil {
		t.Fatal(err)
	}
	return task
}

// A list of truths means any of them, and for mathematics also all of them as a set.
func TestListsOfTruths(t *testing.T) {
	for _, c := range []struct {
		reward, truth, reply string
		want                 float64 // of the part accuracy
	}{
		{"accuracy_reward", `["2"]`, "2", 1}, {"accuracy_reward", `["2"]`, "3", 0}, {"accuracy_reward", `["1", "2"]`, "1", 1},
		{"accuracy_reward", `["1", "2"]`, `\boxed{1, 2}`, 1}, {"accuracy_reward", `["1", "2"]`, `\boxed{2, 1}`, 1},
		{"accuracy_reward", `["1", "2"]`, "12", 0},
		{"accuracy_reward", `["1", "2"]`, `\boxed{1, 3}`, 0}, {"accuracy_reward", `1234567.5`, "1234567.5", 1},
		{"accuracy_reward", `100000000000000000000`, "100000000000000000000", 1}, {"accuracy_reward", `100000000000000000001`,
			"100000000000000000000", 0},
		{"accuracy_reward", `["#### 4", "\\boxed{5}"]`, "5", 1},
		{"math_boxed_reward", `["1/2", "3"]`, `\boxed{0.5}`, 1}, {"math_reward", `["7"]`, "<answer>7</answer>", 1},
		{"math_dapo_reward", `["7"]`, "7", 1},
		{"rlcr_reward", `["6", "7"]`, "<think>t</think><answer>7</answer><analysis>a</analysis><confidence>1</confidence>", 1},
		{"last_number_reward", `["2", 3.50]`, "so 3.5", 1}, {"last_number_reward", `["2", 3.50]`, "so 4", 0},
		{"last_number_reward", `9007199254740993`, "9007199254740992", 0},
		{"pattern_reward", `["yes", "sure"]`, "sure", 1}, {"pattern_reward", `["yes", "sure"]`, `["yes","sure"]`, 0},
		{"pattern_reward", `3.0`, "3.0", 1},
		{"json_reward", `{"k": "v"}`, `{"k": "v"}`, 1}, {"json_schema_reward", `["1", "2"]`, `["1", "2"]`, 1},
	} {
		args := map[string]map[string]any{
			"pattern_reward": {"pattern": "(?P<answer>.*)"}, "json_reward": {"keys": []any{"k"}},
			"json_schema_reward": {"schema": map[string]any{"type": "array"}, "answer_score": 1.0},
		}[c.reward]
		f, err := registry.Rewards.Build(c.reward, args)
		if err != nil {
			t.Fatal(err)
		}
		task := rowOf(t, c.truth)
		if check := trinity.RequirementsOf(f).CheckTask; check(task) != nil {
			t.Errorf("%s refuses %s: %v", c.reward, c.truth, check(task))
		}
		r, err := f.Score(t.Context(), trinity.RewardInput{Task: task, Truth: task.Truth(), Response: c.reply})
		if err != nil || r.Parts["accuracy"] != c.want {
			t.Errorf("%s of %s for %s: got %+v, %v; want %g", c.reward, c.reply, c.truth, r, err, c.want)
		}
	}
}

// A truth that no text can equal is an error of its row, and never reward 0.
func TestTruthsThatAreNoTexts(t *testing.T) {
	for name, args := range map[string]map[string]any{
		"accuracy_reward": nil, "math_boxed_reward": nil, "math_reward": nil, "math_dapo_reward": nil, "rlcr_reward": nil,
		"last_number_reward": nil,
		"pattern_reward":     {"pattern": "(?P<answer>.*)"},
	} {
		f, err := registry.Rewards.Build(name, args)
		if err != nil {
			t.Fatal(err)
		}
		for truth, want := range map[string]string{
			`{"ground_truth": "2"}`: `name one of them, such as "a.ground_truth"`, `[{"x": 1}]`: "holds an object",
			`[]`: "is empty", `["1", []]`: "holds a list",
		} {
			task := rowOf(t, truth)
			r, err := f.Score(t.Context(), trinity.RewardInput{Task: task, Truth: task.Truth(), Response: "2"})
			if check := trinity.RequirementsOf(f).CheckTask(task); check == nil || !strings.Contains(check.Error(), want) ||
				err != nil || r.Valid || !strings.Contains(r.Reason, want) {
				t.Errorf("%s, %s: the check says %v, the score is %+v, %v", name, truth, check, r, err)
			}
		}
	}
}

// Programs and services read a list or an object as JSON, and each number with its digits.
func TestTruthsOnTheWire(t *testing.T) {
	for truth, want := range map[string]string{
		`["2"]`: `"truth":"[\"2\"]"`, `{"x": 1.50}`: `"truth":"{\"x\":1.50}"`, `1234567.5`: `"truth":"1234567.5"`,
		`100000000000000000000`: `"row":{"a":100000000000000000000}`, `3.0`: `"row":{"a":3.0}`,
	} {
		task := rowOf(t, truth)
		line, err := encode(trinity.RewardInput{Task: task, Truth: task.Truth()})
		if err != nil || !strings.Contains(string(line), want) {
			t.Errorf("%s: got %s, %v; want %s", truth, line, err, want)
		}
	}
}
