package reward

import (
	"maps"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func build(t *testing.T, name string, args map[string]any) trinity.RewardFunc {
	t.Helper()
	fn, err := registry.Rewards.Build(name, args)
	if err != nil {
		t.Fatal(err)
	}
	return fn
}

const shaped = "<think>so it is</think>\n<answer>"

// The value of each reward is the sum of its parts.
func TestMathematicsRewardsHaveParts(t *testing.T) {
	type (
		args  = map[string]any
		parts = map[string]float64
	)
	for _, c := range []struct {
		name            string
		args            args
		response, truth string
		want            parts
	}{
		{"math_reward", nil, shaped + "72</answer>", "72", parts{"accuracy": 1, "format_score": 0.1}},
		{"math_reward", nil, shaped + "71</answer>", "72", parts{"accuracy": 0, "format_score": 0.1}},
		{"math_reward", nil, "72", "72", parts{"accuracy": 1, "format_score": -0.1}},
		{"math_reward", nil, "", "72", parts{"accuracy": 0, "format_score": -0.1}},
		{"math_reward", nil, shaped + `\boxed{\frac{1}{2}}</answer>`, "0.5", parts{"accuracy": 1, "format_score": 0.1}},
		{"math_reward", nil, "Half of it.\n#### 1,234", "so 1234\n#### 1234", parts{"accuracy": 1, "format_score": -0.1}},
		{"math_reward", nil, shaped + "72</answer> or so", "72", parts{"accuracy": 1, "format_score": -0.1}},
		{"math_reward", nil, "<think>72</think> I do not know", "72", parts{"accuracy": 0, "format_score": -0.1}},
		{"math_reward", args{"format_score_coef": 0}, "72", "72", parts{"accuracy": 1, "format_score": 0}},
		{"math_reward", args{"format_score_coef": 1}, shaped + "A</answer>", "A", parts{"accuracy": 1, "format_score": 1}},

		{"math_reward", args{"pattern": `Answer: .*`}, "Answer: 72", "72", parts{"accuracy": 1, "format_score": 0.1}},
		{"math_reward", args{"pattern": `Answer: .*`}, "It is 72", "72", parts{"accuracy": 0, "format_score": -0.1}},

		{"math_boxed_reward", nil, `so \boxed{72}`, "72", parts{"accuracy": 1, "format_score": 0}},
		{"math_boxed_reward", nil, "so 72", "72", parts{"accuracy": 0, "format_score": 0}},
		{"math_boxed_reward", nil, `\boxed{1}, no, \boxed{\frac{144}{2}}`, "72", parts{"accuracy": 1, "format_score": 0}},
		{"math_boxed_reward", nil, `\boxed{72}`, `Twice 36 is \boxed{72}.`, parts{"accuracy": 1, "format_score": 0}},
		{"math_boxed_reward", args{"with_think": true}, `\boxed{72}`, "72", parts{"accuracy": 1, "format_score": -0.1}},
		{"math_boxed_reward", args{"with_think": true}, `<think>twice 36</think> \boxed{72}`, "72", parts{"accuracy": 1, "format_score": 0}},
		{"math_boxed_reward", args{"with_think": true}, `<think>36</think> <think>72</think> \boxed{72}`, "72",
			parts{"accuracy": 1, "format_score": -0.1}},
		{"math_boxed_reward", args{"with_think": true}, `<think>36<think>72</think> \boxed{72}`, "72",
			parts{"accuracy": 1, "format_score": -0.1}},
		{"math_boxed_reward", args{"with_think": true}, `<think>\boxed{72}</think>`, "72", parts{"accuracy": 1, "format_score": -0.1}},
		{"math_boxed_reward", args{"with_think": true, "format_score_coef": 0}, `\boxed{72}`, "72", parts{"accuracy": 1, "format_score": 0}},
		{"math_boxed_reward", args{"with_think": true, "format_score_coef": 0.5}, "72", "72", parts{"accuracy": 0, "format_score": -0.5}},

		{"math_dapo_reward", nil, `Answer: \boxed{34}`, "34", parts{"accuracy": 1}},
		{"math_dapo_reward", nil, "Answer: 34", "34", parts{"accuracy": 1}},
		{"math_dapo_reward", nil, "Answer: 35", "34", parts{"accuracy": -1}},
		{"math_dapo_reward", nil, "", "34", parts{"accuracy": -1}},

		{"format_reward", nil, shaped + "1</answer>", "", parts{"format_score": 0.1}},
		{"format_reward", nil, " \n" + shaped + "1</answer>\n", "", parts{"format_score": 0.1}},
		{"format_reward", nil, "1", "", parts{"format_score": -0.1}},
		{"format_reward", nil, "", "", parts{"format_score": -0.1}},
		{"format_reward", nil, shaped + "1</answer><answer>2</answer>", "", parts{"format_score": -0.1}},
		{"format_reward", nil, "<answer>1</answer><think>x</think>", "", parts{"format_score": -0.1}},
		{"format_reward", args{"coef": 2}, "1", "", parts{"format_score": -2}},
		{"format_reward", args{"pattern": `\d+.`}, "12\n", "", parts{"format_score": 0.1}},
		{"format_reward", args{"pattern": `\d+|x`}, "12x", "", parts{"format_score": -0.1}}, // the whole reply

		{"accuracy_reward", nil, "I think that the answer is 1e3.", "1000", parts{"accuracy": 1}},
		{"accuracy_reward", nil, "$(1,2)$", "(1,2)", parts{"accuracy": 1}},
		{"accuracy_reward", nil, `\boxed{1} \boxed{2}`, "2", parts{"accuracy": 1}},
		{"accuracy_reward", nil, `\boxed{2} \boxed{1}`, "2", parts{"accuracy": 0}},
		{"accuracy_reward", nil, `\boxed{1} or \boxed{2}`, "2", parts{"accuracy": 0}},
		{"accuracy_reward", nil, `\boxed{1} or \boxed{2}`, "2, 1", parts{"accuracy": 1}},
		{"accuracy_reward", nil, "So $x=-3$ or $x=1$.", "1", parts{"accuracy": 0}},
		{"accuracy_reward", nil, "So $x=-3$ or $x=1$.", "1, -3", parts{"accuracy": 1}},
		{"math_boxed_reward", nil, `\boxed{\textcolor{red}{17}\,} and \boxed{18}`, "18", parts{"accuracy": 0, "format_score": 0}},
		{"math_boxed_reward", nil, `\boxed{\textcolor{red}{17}\,}`, "17", parts{"accuracy": 1, "format_score": 0}},
		{"math_dapo_reward", nil, "The solutions are -3 and 1.", "1", parts{"accuracy": -1}},
		{"accuracy_reward", args{"answer": "tag"}, "<answer>5</answer> 6", "5", parts{"accuracy": 1}},
		{"accuracy_reward", args{"answer": "tag"}, "5", "5", parts{"accuracy": 0}},
		{"accuracy_reward", args{"answer": "boxed"}, "5", "5", parts{"accuracy": 0}},
		{"accuracy_reward", args{"answer": "hash"}, "6\n#### 5", "5", parts{"accuracy": 1}},
		{"accuracy_reward", args{"answer": "last_number"}, "5 is not 6", "6", parts{"accuracy": 1}},
		{"accuracy_reward", args{"answer": "whole"}, "x+1", "1+x", parts{"accuracy": 1}},
		{"accuracy_reward", args{"answer": "whole"}, "it is 5", "5", parts{"accuracy": 0}},
	} {
		r, err := build(t, c.name, c.args).Score(t.Context(), trinity.RewardInput{Response: c.response, Truth: c.truth})
		sum := 0.0
		for _, v := range c.want {
			sum += v
		}
		if err != nil || !r.Valid || !maps.Equal(r.Parts, c.want) || r.Value != sum {
			t.Errorf("%s %v of %q, truth %q: got %+v, %v; want %v", c.name, c.args, c.response, c.truth, r, err, c.want)
		}
	}
}

// For a limit of 10 tokens and a cache of 4, DAPO's soft penalty grows from 6 to 10 tokens.
func TestOverlongPenaltyGrowsWithinTheCache(t *testing.T) {
	fn := build(t, "math_dapo_reward", map[string]any{"enable_overlong_penalty": true, "penalty_factor": 2,
		"max_response_length": 10, "cache_length": 4})
	for tokens, want := range map[int]float64{0: 0, 1: 0, 6: 0, 7: -0.5, 8: -1, 9: -1.5, 10: -2, 11: -2, 1000: -2} {
		e := &trinity.Experience{Tokens: make([]int32, tokens+5), Mask: make([]bool, tokens+5), PromptLen: 5}
		for i := range tokens {
			e.Mask[5+i] = true
		}
		r, err := fn.Score(t.Context(), trinity.RewardInput{Response: "34", Truth: "34", Experience: e})
		if err != nil || r.Parts["overlong_penalty"] != want || r.Value != 1+want {
			t.Errorf("%d tokens: got %+v, %v; want %v", tokens, r, err, want)
		}
	}
	if r, err := fn.Score(t.Context(), trinity.RewardInput{Response: "34", Truth: "34"}); err != nil || r.Valid {
		t.Errorf("without tokens: got %+v, %v", r, err)
	}
}

func TestNoTruthGivesAnInvalidReward(t *testing.T) {
	task := &trinity.Task{Format: trinity.TaskFormat{ResponseKey: "solution"}}
	for _, name := range []string{"math_reward", "math_boxed_reward", "math_dapo_reward", "accuracy_reward"} {
		r, err := build(t, name, nil).Score(t.Context(), trinity.RewardInput{Task: task, Response: "0", Truth: " "})
		if err != nil || r.Valid || !strings.Contains(r.Reason, `"solution"`) {
			t.Errorf("%s: got %+v, %v; want an invalid reward that names the key", name, r, err)
		}
	}
}

func TestBoxedRewardTakesTheWorkflowsFormat(t *testing.T) {
	own, zero := &mathBoxed{FormatScoreCoef: 0.3}, 0.0
	for _, c := range []struct {
		think bool
		coef  *float64
		want  mathBoxed
	}{
		{false, nil, mathBoxed{FormatScoreCoef: 0.3}},
		{true, nil, mathBoxed{WithThink: true, FormatScoreCoef: 0.3}},
		{true, &zero, mathBoxed{WithThink: true}},
	} {
		if got := own.WithFormat(c.think, c.coef).(*mathBoxed); *got != c.want || own.WithThink {
			t.Errorf("WithFormat(%v, %v) = %+v, want %+v", c.think, c.coef, *got, c.want)
		}
	}
}

func TestMathematicsArgumentsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name string
		args map[string]any
		want string
	}{
		{"accuracy_reward", map[string]any{"answer": "somewhere"}, "last_number"},
		{"format_reward", map[string]any{"pattern": "("}, "pattern"},
		{"math_reward", map[string]any{"pattern": "("}, "pattern"},
		{"math_dapo_reward", map[string]any{"enable_overlong_penalty": true}, "cache_length"},
		{"math_dapo_reward", map[string]any{"enable_overlong_penalty": true, "cache_length": 5, "max_response_length": 4}, "cache_length"},
		{"math_dapo_reward", map[string]any{"enable_overlong_penalty": true, "cache_length": 4, "max_response_length": 4,
			"penalty_factor": -1}, "penalty_factor"},
		{"countdown_reward", map[string]any{"format_scor": 1}, `"format_score"`},
	} {
		errs := mustFind(t).Check(c.name, c.args)
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%s %v: got %v, want %q", c.name, c.args, errs, c.want)
		}
	}
}
