package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// script is a sampler that gives its replies in turn, the last one again and again.
type script struct {
	replies []string
	made    int
}

func (s *script) Sample(ctx context.Context, p trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	says := s.replies[min(s.made, len(s.replies)-1)]
	s.made++
	return (&parrot{says: says}).Sample(ctx, p, params)
}

// calling reads each "name(expression)" of a reply that is on a line of its own as a call.
type calling struct{ plain }

func (c calling) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	m := trinity.Message{Role: "assistant", Content: c.Decode(tokens)}
	var calls []trinity.ToolCall
	for line := range strings.Lines(m.Content) {
		if name, args, ok := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), ")"), "("); ok {
			calls = append(calls, trinity.ToolCall{Name: name, Arguments: json.RawMessage(fmt.Sprintf(`{"expression": %q}`, args))})
		}
	}
	return m, calls, nil
}

// react runs a workflow whose policy gives replies in turn.
func react(t *testing.T, name string, args map[string]any, replies ...string) ([]*trinity.Experience, *echo) {
	t.Helper()
	m := model(nil)
	m.Sampler, m.Renderer = &script{replies: replies}, calling{}
	scored := &echo{}
	exps, err := build(t, name, args).Run(t.Context(), rollout(task(), m, scored))
	if err != nil {
		t.Fatal(err)
	}
	return exps, scored
}

func TestReActCallsToolsUntilAReplyHasNoCall(t *testing.T) {
	example := []map[string]any{{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}}
	for _, c := range []struct {
		args    map[string]any
		replies []string
		reads   string // after the example and the question
		turns   float64
		scored  string
		errors  float64
		cut     trinity.Truncation
	}{
		{nil, []string{"5"}, "assistant: 5", 1, "5", 0, trinity.NotTruncated},
		{nil, []string{"calculator(2+3)", "It is 5."}, "assistant: calculator(2+3)\ntool: 5\nassistant: It is 5.", 2,
			"It is 5.", 0, trinity.NotTruncated},
		{nil, []string{"calculator(2+3)\ncalculator(2**0.5*0)", "5"},
			"assistant: calculator(2+3)\ncalculator(2**0.5*0)\ntool: 5\ntool: 0\nassistant: 5", 2, "5", 0, trinity.NotTruncated},
		{nil, []string{"abacus(1)", "5"}, `assistant: abacus(1)
tool: error: there is no tool "abacus"; the tools are calculator
assistant: 5`, 2, "5", 0.5, trinity.NotTruncated},
		{map[string]any{"max_turns": 2}, []string{"calculator(1)"}, "assistant: calculator(1)\ntool: 1\nassistant: calculator(1)", 2,
			"calculator(1)", 0, trinity.TurnsTruncated},
		{map[string]any{"tool_args": map[string]any{"calculator": map[string]any{"name": "sum"}}}, []string{"sum(2+3)", "5"},
			"assistant: sum(2+3)\ntool: 5\nassistant: 5", 2, "5", 0, trinity.NotTruncated},
	} {
		args := map[string]any{"tools": []string{"calculator"}, "examples": example}
		for k, v := range c.args {
			args[k] = v
		}
		for _, name := range []string{"react_workflow", "as_react_workflow", "agentscope_react_workflow"} {
			exps, scored := react(t, name, args, c.replies...)
			e := exps[0]
			want := "user: 1+1?\nassistant: 2\nuser: 2+3?\n" + c.reads
			if got := (plain{}).Decode(e.Tokens); len(exps) != 1 || got != want {
				t.Errorf("%v: %d experiences, the first is %q, want %q", c.args, len(exps), got, want)
			}
			if e.Metrics["turns"] != c.turns || e.Metrics["tool_error_rate"] != c.errors || e.Truncated != c.cut {
				t.Errorf("%v: %v, %s", c.args, e.Metrics, e.Truncated)
			}
			if scored.got.Response != c.scored || e.Reward.Value != 1.5 {
				t.Errorf("%v: scored %q: %+v", c.args, scored.got.Response, e.Reward)
			}
		}
	}
}

func TestReActGivesEachReplyAsAStep(t *testing.T) {
	args := map[string]any{"tools": []string{"calculator"}, "steps": true}
	exps, _ := react(t, "react_workflow", args, "calculator(2+3)", "5")
	if len(exps) != 2 || exps[0].Reward.Value != 1.5 || exps[1].Reward.Value != 1.5 || exps[1].ID.Turn != 1 {
		t.Errorf("%+v", exps)
	}
}

func TestReActNeedsAQuestionToolsAndAReward(t *testing.T) {
	needs := trinity.RequirementsOf(build(t, "react_workflow", map[string]any{"tools": []string{"calculator"}}))
	if !needs.Tools || !needs.Turns || !needs.Reward {
		t.Errorf("%+v", needs)
	}
	if err := needs.CheckTask(task()); err != nil {
		t.Error(err)
	}
	if needs.CheckTask(&trinity.Task{Row: map[string]any{}}) == nil {
		t.Error("a row without a question is accepted")
	}
	calculator := []string{"calculator"}
	for want, args := range map[string]map[string]any{
		`unknown environment "sums"`: {"tools": []string{"sums"}},
		"max_turns":                  {"tools": calculator, "max_turns": 0},
		"tool_timeout":               {"tools": calculator, "tool_timeout": 0},
		`"sums" is not among tools`:  {"tools": calculator, "tool_args": map[string]any{"sums": map[string]any{}}},
		"environment calculator":     {"tools": calculator, "tool_args": map[string]any{"calculator": map[string]any{"x": 1}}},
		"a role and a content":       {"tools": calculator, "examples": []map[string]any{{"role": "user"}}},
	} {
		if _, err := registry.Workflows.Build("react_workflow", args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	if trinity.RequirementsOf(build(t, "react_workflow", nil)).Tools {
		t.Error("tools, though none are named")
	}
	// With an environment that has no tools, and with two of one name, the policy cannot call.
	for want, tools := range map[string][]string{
		"without a list of tools": {"stage"}, `two tools have the name "calculator"`: {"calculator", "calculator"},
	} {
		w := build(t, "react_workflow", map[string]any{"tools": tools})
		if _, err := w.Run(t.Context(), rollout(task(), model(&parrot{says: "5"}), &echo{})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", tools, err, want)
		}
	}
}
