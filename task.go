package trinity

import (
	"fmt"
	"strings"
)

// Task is one row of a taskset, together with how it is to be run.
type Task struct {
	ID           string         // taskset name and row, e.g. "taskset/17": the same in every epoch and after a resume; "taskset/17#2" when it comes again in one step
	Taskset      string         // name of the taskset it came from
	Index        int            // row in the taskset
	Workflow     string         // registered workflow name
	WorkflowArgs map[string]any // merged over the workflow's defaults
	Reward       string         // registered reward function; "" leaves the choice to the workflow
	RewardArgs   map[string]any // merged over the reward function's defaults
	Row          map[string]any // the raw row
	Format       TaskFormat     // which keys of Row mean what
	Sampling     SamplingParams // taskset's rollout arguments; N and Seed are set by the caller of the sampler
	GroupSize    int            // rollouts of the task, G
	Teacher      string         // Experience.Teacher of its rollouts, unless the workflow names another
	Eval         bool           // evaluation: nothing is trained on
}

// TaskFormat names the keys of a row, as the YAML's `format` section does. Keys may be dotted paths into nested objects.
type TaskFormat struct {
	PromptKey       string
	ResponseKey     string
	SystemPromptKey string
	SystemPrompt    string
	MessagesKey     string
	ToolsKey        string
	ReplyPrefix     string
	ChosenKey       string
	RejectedKey     string
	LabelKey        string
}

// Field returns the value at a dotted key of the row; a key that contains dots and exists as written wins.
func (t *Task) Field(key string) (any, bool) {
	if key == "" {
		return nil, false
	}
	if v, ok := t.Row[key]; ok {
		return v, true
	}
	var cur any = t.Row
	for _, part := range strings.Split(key, ".") {
		m, ok := cur.(map[string]any)
		if !ok {
			return nil, false
		}
		if cur, ok = m[part]; !ok {
			return nil, false
		}
	}
	return cur, true
}

// Text returns the field as text, or an error that names the task and the key when it is absent or null.
func (t *Task) Text(key string) (string, error) {
	v, ok := t.Field(key)
	if !ok || v == nil {
		return "", fmt.Errorf("task %s has no field %q: check the taskset's `format` keys", t.ID, key)
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	return fmt.Sprint(v), nil
}

// Prompt returns the task's question, the text at format.prompt_key.
func (t *Task) Prompt() (string, error) { return t.Text(t.Format.PromptKey) }

// Truth returns the reference answer, the text at format.response_key, or "" when the taskset has none.
func (t *Task) Truth() string {
	s, err := t.Text(t.Format.ResponseKey)
	if err != nil {
		return ""
	}
	return s
}

// System returns the system prompt of the row, else that of the taskset, else "".
func (t *Task) System() string {
	if s, err := t.Text(t.Format.SystemPromptKey); err == nil {
		return s
	}
	return t.Format.SystemPrompt
}
