package run_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/toolcall"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("test_counter", "Two turns, with a tool or without.",
		func() trinity.EnvironmentOpener { return &counter{} })
}

// counter ends after two replies. Its reward is the number of calls.
type counter struct {
	Tools bool `yaml:"tools" doc:"offer a tool"`
	turns int
	calls float64
}

func (c *counter) Requires() trinity.Requirements { return trinity.Requirements{Tools: c.Tools} }

func (c *counter) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	return &counter{Tools: c.Tools}, nil
}

func (c *counter) Reset(context.Context, uint64) (trinity.Observation, error) {
	o := trinity.Observation{Messages: []trinity.Message{{Role: "user", Content: "1 + 1"}}}
	if c.Tools {
		o.Tools = json.RawMessage(`[{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]`)
	}
	return o, nil
}

func (c *counter) Step(_ context.Context, a trinity.Action) (trinity.Outcome, error) {
	c.turns++
	c.calls += float64(len(a.Calls))
	return trinity.Outcome{
		Observation: trinity.Observation{Messages: []trinity.Message{{Role: "user", Content: "again"}}}, Done: c.turns == 2, Reward: &c.calls,
	}, nil
}

func (*counter) Close() error { return nil }

// templates are those that the renderer is tested with.
const templates = "../../model/renderer/internal/jinja/testdata/templates/"

const turns = "buffer.explorer_input.taskset.default_workflow_type=environment_workflow"

func ofCounter(tools string) []string {
	return []string{turns, "buffer.explorer_input.taskset.workflow_args={environment: test_counter, environment_args: {tools: " + tools + "}}",
		noEvaluation, "model.max_model_len=512"}
}

func TestCheckSaysWhatSeveralTurnsCost(t *testing.T) {
	p := newProject(t, tiny, rl)
	chat := func(template string, overrides ...string) string {
		t.Helper()
		overrides = slices.Concat(ofCounter("true"), overrides, []string{"model.chat_template_path=" + templates + template})
		f, err := settle.Facts(p.load(t, overrides...).Settled()[0])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(f.Chat, "\n")
	}
	for _, c := range []struct {
		template, want string
		overrides      []string
	}{
		{template: "qwen25.jinja", want: "only appends: a rollout of several turns is one sequence\ncalls of tools are read as hermes"},
		{template: "qwen3.jinja", want: "each reply begins a new sequence: n turns train on about (n+1)/2 times"},
		{template: "qwen3.jinja", overrides: []string{"explorer.rollout_model.keep_thinking=true"}, want: "keep_thinking keeps them"},
		{template: "qwen3.jinja", overrides: []string{"explorer.rollout_model.on_rewrite=fail"}, want: "a second reply fails the rollout"},
		{template: "qwen3.jinja", overrides: []string{"explorer.rollout_model.reasoning_parser=none"}, want: "only appends"},
		{template: "chatml_generation.jinja", overrides: []string{"explorer.rollout_model.tool_call_parser=pythonic"}, want: "read as pythonic"},
	} {
		if got := chat(c.template, c.overrides...); !strings.Contains(got, c.want) {
			t.Errorf("%s %v: %q, want %q", c.template, c.overrides, got, c.want)
		}
	}
	plan, err := p.load(t, ofCounter("false")...).PlanStages(settle.Facts)
	if err != nil || !strings.Contains(plan.String(), "  chat ") {
		t.Errorf("the plan lacks the chat template: %v, %s", err, plan)
	}
	if f, err := settle.Facts(p.load(t).Settled()[0]); err != nil || f.Chat != nil {
		t.Errorf("one turn: %v, %v, want nothing about several", f.Chat, err)
	}
	const program = "buffer.explorer_input.taskset.default_workflow_type=exec"
	for template, want := range map[string]int{"qwen25.jinja": 0, "llama31.jinja": 0, "gemma_like.jinja": 1, "chatml_generation.jinja": 1} {
		f, err := settle.Facts(p.load(t, program, "buffer.explorer_input.taskset.workflow_args={command: [go]}", noEvaluation,
			"model.chat_template_path="+templates+template).Settled()[0])
		if err != nil || len(f.Chat) != want || want > 0 && !strings.Contains(f.Chat[0], "leaves out tools") {
			t.Errorf("a program's tools with %s: %q, %v", template, f.Chat, err)
		}
	}
}

func TestToolsThatNobodyCanCallAreAnError(t *testing.T) {
	p := newProject(t, tiny, rl)
	for _, c := range []struct {
		overrides, want []string
	}{
		{nil, []string{"explorer_input.taskset", "its tasks have tools, and no tool_call_parser fits the chat template of", "set explorer"}},
		{[]string{"explorer.rollout_model.tool_call_parser=none"}, []string{"its tasks have tools, and the run reads no calls of tools"}},
		{[]string{"explorer.rollout_model.enable_auto_tool_choice=false"}, []string{"the run reads no calls of tools"}},
		{[]string{"explorer.rollout_model.tool_call_parser=plain"}, []string{"rollout_model.tool_call_parser", "needs a tool_call_pattern"}},
		{[]string{"explorer.rollout_model.tool_call_pattern=("}, []string{"rollout_model.tool_call_pattern", "missing closing )"}},
	} {
		overrides := slices.Concat(ofCounter("true"), c.overrides, []string{"model.chat_template_path=" + templates + "chatml_generation.jinja"})
		_, checked := settle.Facts(p.load(t, overrides...).Settled()[0])
		oneLine(t, checked, c.want...)
		_, ran := p.run(t, overrides...)
		oneLine(t, ran, c.want...)
	}
}

// The configuration knows every parser, so that an editor completes their names.
func TestTheConfigurationKnowsEveryParser(t *testing.T) {
	p := newProject(t, tiny, rl)
	for _, name := range append(toolcall.Names(), toolcall.Auto) {
		if got := p.load(t, "explorer.rollout_model.tool_call_parser="+name).Explorer.RolloutModel.ToolCallParser; got != name {
			t.Errorf("%s is read as %q", name, got)
		}
	}
}

// A template that counts the messages writes every earlier turn anew.
func TestOnRewriteAndKeepThinkingReachTheRollouts(t *testing.T) {
	p := newProject(t, tiny, rl)
	begin := append(ofCounter("false"), "buffer.total_steps=1",
		`model.custom_chat_template="{{ messages | length }}{% for m in messages %} {{ m.content }}{% endfor %}"`)
	branches := func(name, override string) string {
		t.Helper()
		if _, err := p.run(t, append(begin, "name="+name, override)...); err != nil {
			t.Fatal(err)
		}
		metrics := read(t, filepath.Join(p.dir, "checkpoints", "p", name, "monitor", "metrics.jsonl"))
		_, rest, _ := strings.Cut(metrics, `"rollout/branch_count/mean":`)
		return rest[:1]
	}
	if got := branches("a", "explorer.rollout_model.on_rewrite=branch"); got != "1" {
		t.Errorf("branches: %s, want 1", got)
	}
	if got := branches("b", "explorer.rollout_model.keep_thinking=true"); got != "0" {
		t.Errorf("branches with keep_thinking: %s, want 0", got)
	}
	_, err := p.run(t, append(begin, "explorer.rollout_model.on_rewrite=fail")...)
	oneLine(t, err, "the chat template rewrites earlier turns")
}
