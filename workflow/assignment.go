package workflow

import (
	"maps"
	"reflect"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/registry"
)

// assignment is what the program reads: a line of JSON. It has only what the run knows.
type assignment struct {
	Task     string            `json:"task"`
	Eval     bool              `json:"eval"`
	Prompt   string            `json:"prompt,omitempty"`
	Messages []trinity.Message `json:"messages,omitempty"` // the chat that ends with the prompt
	Truth    string            `json:"truth,omitempty"`
	Row      map[string]any    `json:"row"`
	Seed     uint64            `json:"seed"`
	BaseURL  string            `json:"base_url"`
	APIKey   string            `json:"api_key"`

	Run         int            `json:"run"`          // number in the group
	RepeatTimes int            `json:"repeat_times"` // rollouts of the group
	Step        int64          `json:"step"`
	BatchID     int64          `json:"batch_id"` // the step, by the name that it has in Trinity-RFT
	Index       rowPlace       `json:"index"`
	Format      map[string]any `json:"format,omitempty"`       // the keys of the section format that are set
	RolloutArgs map[string]any `json:"rollout_args,omitempty"` // how the run samples
	RewardFn    string         `json:"reward_fn,omitempty"`    // of the taskset; python:NAME if it is not built in
	RewardArgs  map[string]any `json:"reward_fn_args,omitempty"`
	Model       map[string]any `json:"model,omitempty"` // its limits
	Auxiliary   []auxiliary    `json:"auxiliary,omitempty"`
}

// rowPlace says which row a task is.
type rowPlace struct {
	Taskset string `json:"taskset"`
	Index   int    `json:"index"`
}

// auxiliary is a model that the run does not train, and where it is asked.
type auxiliary struct {
	Name    string `json:"name"`
	BaseURL string `json:"base_url"`
	APIKey  string `json:"api_key"`
}

// assign returns the assignment of a rollout.
func (a *agentArgs) assign(r *trinity.Rollout, e trinity.Endpoint) assignment {
	t, id, p := r.Task, r.Model.ID, &r.Model.Params
	out := assignment{
		Task: t.ID, Eval: t.Eval, Truth: t.Truth(), Row: t.Row, Seed: r.Seed, BaseURL: e.URL(), APIKey: e.Key(),
		Run: id.Run, RepeatTimes: t.GroupSize, Step: id.Step, BatchID: id.Step, Index: rowPlace{t.Taskset, t.Index}, Format: given(&t.Format),
		RolloutArgs: set(map[string]any{
			"top_p": p.TopP, "top_k": p.TopK, "min_p": p.MinP, "repetition_penalty": p.RepetitionPenalty, "max_tokens": p.MaxTokens,
			"min_tokens": p.MinTokens, "stop": p.Stop,
		}),
		Model: set(map[string]any{
			"max_prompt_tokens": r.Model.MaxPromptLen, "max_model_len": r.Model.MaxModelLen, "max_response_tokens": p.MaxTokens,
		}),
	}
	out.RolloutArgs["temperature"] = p.Temperature   // 0 is one
	if messages, err := t.Messages(""); err == nil { // tasks of programs need no prompt
		out.Messages, out.Prompt = messages, messages[len(messages)-1].Content
	}
	out.RewardFn, out.RewardArgs = registry.Rewards.Origin(t.Reward, t.RewardArgs)
	out.RewardArgs = maps.Clone(out.RewardArgs)
	maps.DeleteFunc(out.RewardArgs, func(key string, _ any) bool { return registry.IsSecret(key) })
	for _, name := range a.auxiliary {
		out.Auxiliary = append(out.Auxiliary, auxiliary{name, e.URL(), e.Key()})
	}
	return out
}

// given returns the fields of a section that are set, by their keys.
func given(section any) map[string]any {
	all, v := map[string]any{}, reflect.ValueOf(section).Elem()
	for _, f := range tags.Fields(v.Type()) {
		all[tags.Key(f)] = v.FieldByIndex(f.Index).Interface()
	}
	return set(all)
}

// set returns the values that are not those of nothing.
func set(all map[string]any) map[string]any {
	maps.DeleteFunc(all, func(_ string, value any) bool { return reflect.ValueOf(value).IsZero() })
	return all
}
