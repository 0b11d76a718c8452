package workflow

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// keptFlows writes what a class of Trinity-RFT returns, and what it says itself.
const keptFlows = `
import json, os
from trinity.common.workflows import WORKFLOWS
from trinity.common.workflows.step_wise_workflow import StepWiseRewardWorkflow

def keep(experiences):
    with open(os.environ["KEPT"], "a") as file:
        for e in experiences:
            json.dump({"tokens": e.tokens.tolist(), "prompt": e.prompt_length, "mask": e.action_mask.tolist(), "reward": float(e.reward),
                       "logprobs": e.logprobs.tolist(),
                       "teacher": None if e.teacher_logprobs is None else e.teacher_logprobs.tolist()}, file)
            file.write("\n")
    return experiences

def kept(cls):
    class Kept(cls):
        def run(self):
            return keep(super().run())
        async def run_async(self):
            return keep(await super().run_async())
    return Kept

class Count(StepWiseRewardWorkflow):
    max_step_num = 3
    messages = ()

    def step(self, step_num):
        self.messages = [*self.messages, {"role": "user", "content": f"{self.task.task_desc} {step_num}"}]
        reply = self.client.chat.completions.create(model=self.client.model_path, messages=self.messages)
        self.messages.append({"role": "assistant", "content": reply.choices[0].message.content})
        return True

    def reward(self, exps, step_num):
        return step_num + len(exps[0].response_text) / 100

Steps = kept(Count)

def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    return kept(WORKFLOWS.get(name))
`

// cut is a policy whose replies to odd seeds are cut.
type cut struct{ teller }

func (p cut) Sample(ctx context.Context, prompt trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	out, err := p.teller.Sample(ctx, prompt, params)
	if params.Seed%2 == 1 {
		last := len(out[0].Tokens) - 1
		out[0].Tokens, out[0].Logprobs, out[0].FinishReason = out[0].Tokens[:last], out[0].Logprobs[:last], "length"
	}
	return out, err
}

// judging is a host with a judge.
type judging struct{ *gated }

func (judging) Asker(string) (trinity.Asker, error) { return scores{}, nil }

type scores struct{}

func (scores) Logprobs(_ context.Context, tokens []int32) (out []float32, err error) {
	for i, token := range tokens[1:] {
		out = append(out, -float32(math.Log(float64(token)+1.7))/float32(i+3))
	}
	return out, nil
}

func (scores) Ask(context.Context, []trinity.Message, trinity.AskOptions) (trinity.Answer, error) {
	return trinity.Answer{Message: trinity.Message{Role: "assistant", Content: "[0.25, 0.5, 1]"}}, nil
}

// What a class of Trinity-RFT returns is what is trained: the same ids, mask and reward, and the same bits of log-probabilities.
func TestCompatClassesOfTrinityRFT(t *testing.T) {
	python := trinitytest.CompatPython(t, "openai", "gymnasium", "math_verify", "agentscope")
	auto, judge := map[string]any{"required_tools": "auto"}, map[string]any{"auxiliary_models": []any{"judge"}}
	for _, c := range []struct {
		class, says string
		args, more  map[string]any
		group       bool
		teaches     bool // the class asks for the log-probabilities of its auxiliary model
		experiences int  // of three rollouts
	}{
		{class: "math_boxed_workflow", says: `It is \boxed{5}`, experiences: 3},
		{class: "simple_workflow", says: "<think>a</think><answer>5</answer>", experiences: 3},
		{class: "frozen_lake_workflow", says: "```Right```", args: map[string]any{"desc": []any{"SFFF", "FFFF", "FFFG"}}, experiences: 3},
		{class: "Steps", says: "three", experiences: 9},
		{class: "agentscope_react_workflow", says: "five", args: map[string]any{"type": "gsm8k"}, more: auto, experiences: 33},
		{class: "sudoku_workflow", says: "```0 0 1```", experiences: 3},
		{class: "async_math_workflow", says: "<think>a</think><answer>5</answer>", experiences: 3},
		{class: "rubric_judge_workflow", says: "five", more: judge, group: true, experiences: 3},
		{class: "math_ruler_workflow", more: judge, group: true, experiences: 3},
		{class: "on_policy_distill_workflow", says: "five", more: judge, teaches: true, experiences: 3},
		{class: "on_policy_distill_math_workflow", says: `\boxed{5}`, more: judge, group: true, teaches: true, experiences: 3},
	} {
		t.Run(c.class, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "kept.jsonl")
			if err := os.WriteFile(filepath.Join(dir, "kept_flows.py"), []byte(keptFlows), 0o600); err != nil {
				t.Fatal(err)
			}
			args := map[string]any{
				"class": "kept_flows." + c.class, "args": c.args, "group": c.group,
				"python": map[string]any{"path": []any{dir}, "interpreter": python, "env": map[string]any{"KEPT": file}},
			}
			for key, value := range c.more {
				args[key] = value
			}
			s, w := newGated(t), build(t, "python", args)
			var group []*trinity.Rollout
			var trained []*trinity.Experience
			for run := range 3 {
				r := onGated(s, cut{teller{c.says}}, run, nil)
				r.Model.MaxModelLen, r.Model.Params.Temperature, r.Host = 1<<20, 1, judging{s}
				r.Task.Row = map[string]any{"question": "2+3?", "answer": "5"}
				r.Task.Format = trinity.TaskFormat{PromptKey: "question", ResponseKey: "answer"}
				if c.class != "math_boxed_workflow" { // which has another
					r.Task.Reward = "python"
					r.Task.RewardArgs = map[string]any{"class": "trinity.common.rewards.math_reward.MathRewardFn"}
				}
				if group = append(group, r); c.group {
					continue
				}
				exps, err := w.Run(t.Context(), r)
				if err != nil {
					t.Fatal(err, s.log.String())
				}
				trained = append(trained, exps...)
			}
			if c.group {
				all, err := trinity.RequirementsOf(w).RunGroup(t.Context(), group)
				if err != nil {
					t.Fatal(err, s.log.String())
				}
				trained = slices.Concat(all...)
			}
			for _, e := range trained {
				if (e.TeacherLogprobs != nil) != c.teaches {
					t.Errorf("log-probabilities of a teacher: %v", e.TeacherLogprobs)
				}
			}
			compareKept(t, file, trained, c.experiences)
		})
	}
}

// compareKept compares what a class has returned, in the lines of a file, with what is trained.
func compareKept(t *testing.T, file string, trained []*trinity.Experience, n int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != len(trained) || len(lines) != n {
		t.Fatalf("%d experiences were returned and %d are trained, want %d", len(lines), len(trained), n)
	}
	for i, line := range lines {
		var own struct {
			Tokens   []int32
			Prompt   int
			Mask     []bool
			Reward   float64
			Logprobs []float32
			Teacher  []float32
		}
		if err := json.Unmarshal([]byte(line), &own); err != nil {
			t.Fatal(err)
		}
		// What is trained is in the order of the tree of calls.
		found := slices.IndexFunc(trained, func(e *trinity.Experience) bool { return slices.Equal(own.Tokens, e.Tokens) })
		if found < 0 {
			t.Errorf("experience %d is not trained: %s", i, line)
			continue
		}
		e := trained[found]
		if trained = slices.Delete(trained, found, found+1); own.Reward != e.Reward.Value || !e.Reward.Valid {
			t.Errorf("experience %d is %s, and what is trained has %+v", i, line, e.Reward)
			continue
		}
		for at := range e.Tokens {
			learns := at >= own.Prompt && own.Mask[at-own.Prompt]
			if learns != e.Mask[at] || learns && math.Float32bits(own.Logprobs[at-own.Prompt]) != math.Float32bits(e.Logprobs[at]) {
				t.Errorf("token %d of experience %d has mask %v and log-probability %v, and not those of %s", at, i, e.Mask[at], e.Logprobs[at], line)
				break
			}
			if learns && own.Teacher != nil && math.Float32bits(own.Teacher[at-own.Prompt]) != math.Float32bits(e.TeacherLogprobs[at]) {
				t.Errorf("token %d of experience %d has %v of the teacher, and not that of %s", at, i, e.TeacherLogprobs[at], line)
				break
			}
		}
	}
}
