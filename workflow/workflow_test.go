package workflow

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

var names = []string{"simple_workflow", "math_workflow", "math_boxed_workflow"}

func TestWorkflowsRenderPrompts(t *testing.T) {
	type args = map[string]any
	for _, c := range []struct {
		name   string
		args   args
		format trinity.TaskFormat // in addition to the keys of prompt and response
		want   string
	}{
		{"simple_workflow", nil, trinity.TaskFormat{}, "user: 2+3?\nassistant: "},
		{"math_rm_workflow", nil, trinity.TaskFormat{SystemPrompt: "Add."}, "system: Add.\nuser: 2+3?\nassistant: "},
		{"simple_workflow", nil, trinity.TaskFormat{SystemPrompt: "Add."}, "system: Add.\nuser: 2+3?\nassistant: "},
		{"simple_workflow", nil, trinity.TaskFormat{SystemPrompt: "Add.", SystemPromptKey: "sys"}, "system: Be brief.\nuser: 2+3?\nassistant: "},
		{"simple_workflow", nil, trinity.TaskFormat{SystemPrompt: "Add.", SystemPromptKey: "absent"}, "system: Add.\nuser: 2+3?\nassistant: "},
		{"simple_workflow", nil, trinity.TaskFormat{PromptTemplate: "{q.text} ({a})", SystemTemplate: "{sys}!", SystemPromptKey: "sys"},
			"system: Be brief.!\nuser: 2+3? (5)\nassistant: "},
		{"math_workflow", nil, trinity.TaskFormat{SystemTemplate: "{sys}!"}, "system: Be brief.!\nuser: 2+3?\nassistant: "},
		{"simple_workflow", nil, trinity.TaskFormat{ReplyPrefix: "<think>"}, "user: 2+3?\nassistant: <think>"},
		{"math_workflow", nil, trinity.TaskFormat{}, "system: " + mathSystem + "\nuser: 2+3?\nassistant: "},
		{"math_workflow", nil, trinity.TaskFormat{SystemPrompt: "Add."}, "system: Add.\nuser: 2+3?\nassistant: "},
		{"math_workflow", nil, trinity.TaskFormat{ReplyPrefix: "<think>"}, "system: " + mathSystem + "\nuser: 2+3?\nassistant: <think>"},
		{"math_boxed_workflow", nil, trinity.TaskFormat{}, "system: " + boxedSystem + "\nuser: 2+3?\nassistant: "},
		{"math_boxed_workflow", args{"with_think": true}, trinity.TaskFormat{}, "system: " + boxedThinkSystem + "\nuser: 2+3?\nassistant: "},
		{"math_boxed_workflow", args{"with_think": true}, trinity.TaskFormat{SystemPromptKey: "sys"},
			"system: Be brief.\nuser: 2+3?\nassistant: "},
		{"math_boxed_workflow", args{"use_base": true}, trinity.TaskFormat{}, boxedSystem + "\nUser: 2+3?\nAssistant:"},
		{"math_boxed_workflow", args{"use_base": true, "with_think": true}, trinity.TaskFormat{ReplyPrefix: " <think>"},
			boxedThinkSystem + "\nUser: 2+3?\nAssistant: <think>"},
	} {
		task, p := task(), &parrot{says: "5"}
		c.format.PromptKey, c.format.ResponseKey = task.Format.PromptKey, task.Format.ResponseKey
		task.Format = c.format
		for _, name := range []string{c.name, "async_" + c.name} {
			if _, err := build(t, name, c.args).Run(t.Context(), rollout(task, model(p), &echo{})); err != nil || p.asked != c.want {
				t.Errorf("%s %v: asked %q, %v; want %q", name, c.args, p.asked, err, c.want)
			}
		}
		if p.params.N != 1 || p.params.Temperature != 0.5 || p.params.MaxTokens != 99 {
			t.Errorf("%s: sampled with %+v", c.name, p.params)
		}
	}
}

// use_base stops the model before it asks the next question. It does not change the taskset's own
// stop texts.
func TestBaseModelStopsAtTheNextQuestion(t *testing.T) {
	p := &parrot{says: "5"}
	m := model(p)
	own := append(make([]string, 0, 4), m.Params.Stop...)
	m.Params.Stop = own
	if _, err := build(t, "math_boxed_workflow", map[string]any{"use_base": true}).Run(t.Context(), rollout(task(), m, &echo{})); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.params.Stop, []string{"STOP", "\nUser:"}) || own[:2][1] != "" {
		t.Errorf("stops are %q, the taskset's %q", p.params.Stop, own[:2])
	}
}

func TestExperienceRecordsTheReply(t *testing.T) {
	for _, name := range names {
		for _, args := range []map[string]any{nil, {"use_base": true}} {
			if args != nil && name != "math_boxed_workflow" {
				continue
			}
			for _, prefix := range []string{"", "So: "} {
				task, p, r := task(), &parrot{says: "it is 5", reason: "length"}, &echo{}
				task.Format.ReplyPrefix = prefix
				exps, err := build(t, name, args).Run(t.Context(), rollout(task, model(p), r))
				if err != nil || len(exps) != 1 {
					t.Fatalf("%s: %v, %v", name, exps, err)
				}
				e := exps[0]
				if err := e.Check(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if e.ID != id || e.Prompt != "2+3?" || e.Response != prefix+"it is 5" || e.Versions != [2]int64{3, 4} ||
					e.Temperature != 0.5 || e.Truncated != trinity.ResponseTruncated {
					t.Errorf("%s: got %+v", name, e)
				}
				if got := (plain{}).Decode(e.Tokens[:e.PromptLen]); got != p.asked || !strings.HasSuffix(got, prefix) ||
					slices.Contains(e.Tokens[1:], bos) {
					t.Errorf("%s: the prompt's tokens are %q, with a beginning inside: %v", name, got, slices.Contains(e.Tokens[1:], bos))
				}
				if e.TrainedTokens() != len("it is 5") || slices.Contains(e.Mask[:e.PromptLen], true) || e.Logprobs[e.PromptLen+1] != -0.25 {
					t.Errorf("%s: mask %v, logprobs %v", name, e.Mask, e.Logprobs)
				}
				if !e.Reward.Valid || e.Reward.Value != 1.5 || !maps.Equal(e.Reward.Parts, map[string]float64{"accuracy": 1, "format_score": 0.5}) {
					t.Errorf("%s: reward %+v", name, e.Reward)
				}
				want := trinity.RewardInput{Task: task, Prompt: "2+3?", Response: prefix + "it is 5", Truth: "5", Experience: e, Host: noHost{}}
				if want.Messages = r.got.Messages; !reflect.DeepEqual(r.got, want) {
					t.Errorf("%s: the reward was given %+v", name, r.got)
				}
			}
		}
	}
}

// A reply without a score gets an invalid reward with the reason.
func TestFailedScoreIsNotZero(t *testing.T) {
	for _, name := range names {
		exps, err := build(t, name, nil).Run(t.Context(), rollout(task(), model(&parrot{says: "5"}), &echo{err: errors.New("the judge is out")}))
		if err != nil || exps[0].Reward.Valid || exps[0].Reward.Reason != "the judge is out" {
			t.Errorf("%s: got %+v, %v", name, exps, err)
		}
		m, r := model(&parrot{says: "5"}), &echo{}
		m.MaxPromptLen, m.TruncatePrompt = 3, true
		exps, err = build(t, name, nil).Run(t.Context(), rollout(task(), m, r))
		if err != nil || exps[0].Truncated != trinity.PromptTruncated || exps[0].Reward.Valid || exps[0].Reward.Reason == "" ||
			exps[0].TrainedTokens() != 0 {
			t.Errorf("%s with a prompt too long: got %+v, %v", name, exps, err)
		}
		if r.got.Experience != nil {
			t.Errorf("%s: a prompt without a reply was scored", name)
		}
	}
}

func TestWorkflowsReportFailures(t *testing.T) {
	for _, name := range names {
		for _, args := range []map[string]any{nil, {"use_base": true}} {
			if args != nil && name != "math_boxed_workflow" {
				continue
			}
			w := build(t, name, args)
			for _, prefix := range []string{"", "So: "} {
				tk := task()
				tk.Format.ReplyPrefix = prefix
				var engine *trinity.EngineError
				if _, err := w.Run(t.Context(), rollout(tk, model(&parrot{err: errors.New("out of memory")}), &echo{})); !errors.As(err, &engine) {
					t.Errorf("%s: got %v, want an engine's error", name, err)
				}
				m := model(&parrot{})
				m.MaxPromptLen = 3
				if _, err := w.Run(t.Context(), rollout(tk, m, &echo{})); err == nil || !strings.Contains(err.Error(), "max_prompt_tokens") {
					t.Errorf("%s: got %v, want an error about the prompt", name, err)
				}
			}
			tk := task()
			tk.Format.PromptKey = "question"
			if _, err := w.Run(t.Context(), rollout(tk, model(&parrot{}), &echo{})); err == nil || !strings.Contains(err.Error(), `"question"`) {
				t.Errorf("%s: got %v, want an error that names the key", name, err)
			}
		}
	}
}

// The reward function sees the policy's conversation with the reply as the last message.
func TestRewardSeesTheConversation(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   map[string]any
		system string
	}{
		{"simple_workflow", nil, ""},
		{"math_workflow", nil, mathSystem},
		{"math_boxed_workflow", nil, boxedSystem},
		{"math_boxed_workflow", map[string]any{"use_base": true}, boxedSystem},
	} {
		task, r := task(), &echo{}
		task.Format.ReplyPrefix = "So: "
		if _, err := build(t, c.name, c.args).Run(t.Context(), rollout(task, model(&parrot{says: "5"}), r)); err != nil {
			t.Fatal(err)
		}
		want := []trinity.Message{{Role: "user", Content: "2+3?"}, {Role: "assistant", Content: "So: 5"}}
		if c.system != "" {
			want = append([]trinity.Message{{Role: "system", Content: c.system}}, want...)
		}
		if !reflect.DeepEqual(r.got.Messages, want) {
			t.Errorf("%s %v: the reward saw %+v, want %+v", c.name, c.args, r.got.Messages, want)
		}
	}
}

// A failed engine ends the run, even if a reward function called it.
func TestEngineFailureInARewardIsAnError(t *testing.T) {
	broken := &trinity.EngineError{Err: errors.New("out of memory")}
	_, err := build(t, "simple_workflow", nil).Run(t.Context(), rollout(task(), model(&parrot{says: "5"}), &echo{err: broken}))
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestWorkflowsRequireRewards(t *testing.T) {
	for name, want := range map[string]trinity.Requirements{
		"simple_workflow":                 {Reward: true},
		"math_workflow":                   {Reward: true, DefaultReward: "math_reward"},
		"math_boxed_workflow":             {Reward: true, DefaultReward: "math_boxed_reward"},
		"on_policy_distill_workflow":      {},
		"on_policy_distill_math_workflow": {Reward: true, DefaultReward: "math_boxed_reward"},
	} {
		for _, name := range []string{name, "async_" + name} {
			got := trinity.RequirementsOf(build(t, name, nil))
			if got.CheckTask == nil {
				t.Errorf("%s checks no task", name)
			}
			if got.CheckTask = nil; !reflect.DeepEqual(got, want) {
				t.Errorf("%s requires %+v, want %+v", name, got, want)
			}
		}
	}
}

// formattedEcho expects a format, like math_boxed_reward.
type formattedEcho struct {
	echo
	told  *formattedEcho // the copy with the format
	think bool
	coef  *float64
}

func (f *formattedEcho) WithFormat(think bool, coef *float64) trinity.RewardFunc {
	f.told = &formattedEcho{think: think, coef: coef}
	return f.told
}

// Tasks share their reward function, so the workflow sets the format of a copy.
func TestMathBoxedSetsTheFormatOfTheReward(t *testing.T) {
	for _, c := range []struct {
		args  map[string]any
		think bool
		coef  any
	}{
		{nil, false, nil}, {map[string]any{"with_think": true}, true, nil},
		{map[string]any{"format_score_coef": 0}, false, 0.0}, // zero is a value, not the default
		{map[string]any{"with_think": true, "format_score_coef": 0.3}, true, 0.3},
	} {
		shared := &formattedEcho{}
		r := rollout(task(), model(&parrot{says: "5"}), shared)
		if _, err := build(t, "math_boxed_workflow", c.args).Run(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		told := shared.told
		if r.Reward != trinity.RewardFunc(shared) || shared.got.Response != "" || told.got.Response != "5" {
			t.Errorf("%v: the shared reward function scored, or was replaced", c.args)
		}
		if told.think != c.think || (told.coef == nil) != (c.coef == nil) || told.coef != nil && *told.coef != c.coef {
			t.Errorf("%v: the reward was told %v, %v", c.args, told.think, told.coef)
		}
	}
}

func TestUnknownArgumentsAreErrors(t *testing.T) {
	catalog, _ := registry.Find("workflow")
	for name, want := range map[string]string{"simple_workflow": "takes none", "math_workflow": "takes none",
		"math_boxed_workflow": `"with_think"`} {
		errs := catalog.Check(name, map[string]any{"with_thinks": true})
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: got %v, want %q", name, errs, want)
		}
	}
}
