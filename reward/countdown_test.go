package reward

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestCountdownScoresExpressions(t *testing.T) {
	for _, c := range []struct {
		truth, answer string
		want          float64
	}{
		{`{"target": 98, "numbers": [44, 19, 35]}`, "44+19+35", 1},
		{`{"target": 98, "numbers": [44, 19, 35]}`, " (35 + 19) +\n44 ", 1},
		{`{"numbers": ["44", 19.0, 35], "target": "98"}`, "44+19+35", 1},
		{`{"target": 98, "numbers": [44, 19, 35]}`, "044+19+35", 1},
		{`{"target": 98, "numbers": [44, 19, 35]}`, "44+54", 0.1},          // wrong numbers
		{`{"target": 63, "numbers": [44, 19, 35]}`, "44+19", 0.1},          // a number is missing
		{`{"target": 88, "numbers": [44, 19]}`, "44+44", 0.1},              // a number occurs twice
		{`{"target": 88, "numbers": [44, 44]}`, "44+44", 1},                // both copies are given
		{`{"target": 98, "numbers": [44, 19, 35]}`, "44+19-35", 0.1},       // wrong value
		{`{"target": 98, "numbers": [44, 19, 35]}`, "44+19+35=98", 0.1},    // an equation
		{`{"target": 98, "numbers": [44, 19, 35]}`, "the sum of all", 0.1}, // words
		{`{"target": 98, "numbers": [44, 19, 35]}`, "", 0},                 // nothing
		{`{"target": 1, "numbers": [1, 3, 3]}`, "1/3*3", 1},                // exact
		{`{"target": 24, "numbers": [3, 3, 8, 8]}`, "8/(3-8/3)", 1},        // through fractions
		{`{"target": 2, "numbers": [1, 3]}`, "-1+3", 1},                    // a sign
		{`{"target": 4, "numbers": [1, 3]}`, "3--1", 1},                    // a sign after an operator
		{`{"target": 2, "numbers": [2, 0]}`, "2/0", 0.1},                   // division by zero
		{`{"target": 0, "numbers": [0, 0]}`, "0/0", 0.1},
		{`{"target": 2, "numbers": [5, 2]}`, "5//2", 0.1}, // no operators
		{`{"target": 25, "numbers": [5, 2]}`, "5**2", 0.1},
		{`{"target": 7, "numbers": [5, 2]}`, "5 2", 0.1},
		{`{"target": 7, "numbers": [5, 2]}`, "(5+2", 0.1},
		{`{"target": 7, "numbers": [5, 2]}`, "5+2)", 0.1},
		{`{"target": 7, "numbers": [5, 2]}`, "5+2+", 0.1},
		{`{"target": 7, "numbers": [5, 2]}`, "()", 0.1},
		{`{"target": 10, "numbers": [5, 2]}`, "5(2)", 0.1},
		{`{"target": 7.5, "numbers": [15, 2]}`, "15/2", 1},
		{`{"target": 7, "numbers": [5, 2]}`, "5e0+2", 0.1},
		{`{"target": 7, "numbers": [5, 2]}`, "__import__('os').exit()", 0.1},
		{`{"target": 3, "numbers": [1, 2]}`, "1.0+2", 0.1}, // only integers are allowed
	} {
		in := trinity.RewardInput{Truth: c.truth, Response: "<think>hm</think>\n<answer>" + c.answer + "</answer>"}
		if r, err := (&countdown{FormatScore: 0.1}).Score(t.Context(), in); err != nil || !r.Valid || r.Value != c.want ||
			r.Parts["score"] != c.want {
			t.Errorf("%s by %q: got %+v, %v; want %v", c.truth, c.answer, r, err, c.want)
		}
	}
}

func TestCountdownFindsTheLastAnswer(t *testing.T) {
	const truth = `{"target": 3, "numbers": [1, 2]}`
	for response, want := range map[string]float64{
		"1+2":                             0,
		"<answer>1+2":                     0,
		"1+2</answer>":                    0,
		"<answer> </answer>":              0,
		"<answer>1+2</answer> I am sure.": 1,
		"<answer>2-1</answer> no: <answer>1+2</answer>": 1,
		"<answer>1+2</answer> no: <answer>2-1</answer>": 0.1,
		"<answer>\n1\n+\n2\n</answer>":                  1,
	} {
		r, err := (&countdown{FormatScore: 0.1}).Score(t.Context(), trinity.RewardInput{Truth: truth, Response: response})
		if err != nil || r.Value != want || !r.Valid {
			t.Errorf("%q: got %+v, %v; want %v", response, r, err, want)
		}
	}
}

// No reply takes long to score.
func TestCountdownScoresHostileRepliesQuickly(t *testing.T) {
	for _, answer := range []string{
		strings.Repeat("9", 1_000_000), strings.Repeat("(", 1_000_000), strings.Repeat("-", 999), strings.Repeat("(", 999),
		strings.Repeat("9*", 400) + "9",
		strings.Repeat("1/7+", 240) + "1", strings.Repeat("9", 900) + "/7", strings.Repeat("</answer><answer>", 100_000),
		"9**9**9**9", "1e999999999+2", "\x00\xff+1",
		strings.Repeat("(1/", 300) + "7" + strings.Repeat(")", 300), "٣+٤", "NaN", "inf", "0x10",
	} {
		r, err := (&countdown{FormatScore: 0.1}).Score(t.Context(),
			trinity.RewardInput{Truth: `{"target": 3, "numbers": [1, 2]}`, Response: "<answer>" + answer + "</answer>"})
		if err != nil || !r.Valid || r.Value > 0.1 {
			t.Errorf("%.40q: got %+v, %v", answer, r, err)
		}
	}
}

func TestCountdownReadsTruths(t *testing.T) {
	format := trinity.TaskFormat{ResponseKey: "answer"}
	puzzle := map[string]any{"target": 3.0, "numbers": []any{int64(1), json.Number("2")}}
	for _, c := range []struct {
		name  string
		row   map[string]any
		truth string
		valid bool
	}{
		{"an object in the row", map[string]any{"answer": puzzle}, "map[]", true},
		{"target and numbers apart", map[string]any{"answer": "3", "numbers": []any{1.0, 2.0}}, "3", true},
		{"no numbers", map[string]any{"answer": "3"}, "3", false},
		{"numbers that are none", map[string]any{"answer": "3", "numbers": []any{1.0, "two"}}, "3", false},
		{"an empty list", map[string]any{"answer": "3", "numbers": []any{}}, "3", false},
		{"no list", map[string]any{"answer": "3", "numbers": 1.0}, "3", false},
		{"no target", nil, `{"numbers": [1, 2]}`, false},
		{"a target that is none", nil, `{"target": "three", "numbers": [1, 2]}`, false},
		{"a huge exponent", nil, `{"target": 1e999999999, "numbers": [1, 2]}`, false},
		{"broken JSON", nil, `{"target": 3`, false},
		{"nothing", nil, ``, false},
	} {
		in := trinity.RewardInput{Task: &trinity.Task{Row: c.row, Format: format}, Truth: c.truth, Response: "<answer>1+2</answer>"}
		r, err := (&countdown{NumbersKey: "numbers"}).Score(t.Context(), in)
		if err != nil || r.Valid != c.valid || c.valid && r.Value != 1 || !c.valid && r.Reason == "" {
			t.Errorf("%s: got %+v, %v", c.name, r, err)
		}
	}
}

// Each demonstration uses every number once and reaches its target.
func TestCountdownDemonstrationsAreRight(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "shared", "data", "countdown", "sft.jsonl"))
	if err != nil {
		t.Skip("no countdown data: it is in shared/data beside the repository")
	}
	defer f.Close()
	rows, right := 0, 0
	for lines := bufio.NewScanner(f); lines.Scan(); rows++ {
		var row struct{ Question, Response string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		numbers, target, _ := strings.Cut(row.Question, " -> ")
		_, claim, _ := strings.Cut(row.Response, "=")
		claim, _, _ = strings.Cut(claim, "<")
		want := 0.1
		if claim == target {
			want, right = 1, right+1
		}
		for truth, want := range map[string]float64{target: want, claim: 1} {
			in := trinity.RewardInput{Truth: fmt.Sprintf(`{"target": %s, "numbers": [%s]}`, truth, numbers), Response: row.Response}
			if r, err := (&countdown{FormatScore: 0.1}).Score(t.Context(), in); err != nil || r.Value != want {
				t.Fatalf("%s of %s with target %s: got %+v, %v; want %v", row.Response, row.Question, truth, r, err, want)
			}
		}
	}
	if rows != 2000 || right == 0 || right == rows {
		t.Errorf("%d of %d demonstrations are right", right, rows)
	}
}

func FuzzCountdown(f *testing.F) {
	for _, s := range []string{"1+2", "(1+2)*3/4", "--1", "1//2", "((", "9999999999*1", "1/0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		value, used, ok := calculate(expression)
		if ok && (len(used) == 0 || len(value.Num().String()) > 2*maxExpression) {
			t.Errorf("%q gave %v of %d numbers", expression, value, len(used))
		}
	})
}
