package reward

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// forms write a solution and a number as replies.
var forms = map[string]func(solution, n string) string{
	"tags":             func(s, n string) string { return "<think>" + s + "</think>\n<answer>" + n + "</answer>" },
	"dollars":          func(s, n string) string { return "<think>" + s + "</think><answer>$" + n + "</answer>" },
	"unit":             func(s, n string) string { return "<think>" + s + "</think> <answer>" + n + " apples</answer>" },
	"formula":          func(s, n string) string { return "<think>" + s + "</think> <answer>$x = " + n + "$</answer>" },
	"boxed in tags":    func(s, n string) string { return "<think>" + s + `</think><answer>\boxed{` + n + "}</answer>" },
	"sentence in tags": func(s, n string) string { return "<answer>The answer is " + n + ".</answer>" },
	"lines in tags":    func(s, n string) string { return "<answer>\n" + n + "\n</answer>" },
	"decimals":         func(s, n string) string { return "<answer>" + n + ".00</answer>" },
	"percent":          func(s, n string) string { return "<answer>" + n + "%</answer>" },
	"two tags":         func(s, n string) string { return "<answer>17</answer> no, <answer>" + n + "</answer>" },
	"hash":             func(s, n string) string { return s + "\n#### " + n },
	"boxed":            func(s, n string) string { return s + ` So it is \boxed{` + n + "}." },
	"displayed":        func(s, n string) string { return s + " So it is $$" + n + "$$" },
	"inline":           func(s, n string) string { return s + " So it is $" + n + "$." },
	"parens":           func(s, n string) string { return s + ` So it is \(` + n + `\).` },
	"sentence":         func(s, n string) string { return s + " The answer is " + n + "." },
	"bold":             func(s, n string) string { return s + " **" + n + "**" },
	"last":             func(s, n string) string { return s + " She has " + n + " apples." },
	"money":            func(s, n string) string { return s + " She has $" + n + "." },
	"equation":         func(s, n string) string { return s + " x = " + n },
	"cut":              func(s, n string) string { return s[:len(s)/2] },
	"cut line":         func(s, n string) string { return s + " She has " + n + " apples.\nIf she wants to" },
	"cut thought":      func(s, n string) string { return "<think>" + s[:len(s)/2] },
	"wrong":            func(s, n string) string { return "<think>" + s + "</think><answer>1" + n + "</answer>" },
	"none":             func(s, n string) string { return "I do not know." },
}

// otherForms are the forms of which some replies have another reward, and why.
var otherForms = map[string]string{
	"two tags": "the last one counts; there it is the first",
	"cut line": "a short last line is the answer; there it is the last number",
	"cut":      "an expression in running text is not computed; there 3 * (4 + 5) is 27",
}

// MathRewardFn of Trinity-RFT scores replies as math_reward does, but for the forms that docs/reference/algorithms.md names.
func TestCompatMathReward(t *testing.T) {
	t.Cleanup(bridge.Together())
	bridge.Allow(func(string) {})
	python := trinitytest.CompatPython(t, "math_verify")
	data, err := os.ReadFile("../../shared/data/gsm8k/test.jsonl")
	if err != nil {
		t.Skip("shared/data/gsm8k is not beside the repository")
	}
	build := func(name string, args map[string]any) trinity.RewardFunc {
		fn, err := registry.Rewards.Build(name, args)
		if err != nil {
			t.Fatal(err)
		}
		return fn
	}
	host := trinitytest.Programs(t)
	ours, theirs := build("math_reward", nil), build("python", map[string]any{
		"class": "trinity.common.rewards.math_reward.MathRewardFn", "python": map[string]any{"interpreter": python},
	})
	different := map[string]bool{}
	for _, line := range strings.Split(string(data), "\n")[:60] {
		var row struct{ Answer string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		solution, n, _ := strings.Cut(row.Answer, "\n#### ")
		task := &trinity.Task{
			ID: "gsm8k/0", Row: map[string]any{"answer": row.Answer}, Format: trinity.TaskFormat{ResponseKey: "answer"},
		}
		for form, write := range forms {
			in := trinity.RewardInput{Task: task, Truth: row.Answer, Response: write(solution, n), Host: host}
			want, err := ours.Score(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := theirs.Score(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(got.Value-want.Value) <= 1e-9 && got.Valid == want.Valid {
				continue
			}
			if different[form] = true; otherForms[form] == "" {
				t.Errorf("%s: %+v, want %+v: %q, and the answer is %s", form, got, want, in.Response, n)
			}
		}
	}
	for form := range otherForms {
		if !different[form] {
			t.Errorf("%s: no reply has another reward", form)
		}
	}
}
