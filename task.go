package trinity

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Task is one row of a taskset, together with how to run it.
type Task struct {
	// ID is the taskset's name and the row, such as "taskset/17". It is the same in every epoch and
	// after a resume. If a row comes again in one step, its ID is "taskset/17#2".
	ID           string
	Taskset      string         // name of the taskset it came from
	Index        int            // row in the taskset
	Workflow     string         // registered workflow name
	WorkflowArgs map[string]any // merged over the workflow's defaults
	Reward       string         // registered reward function; "" leaves the choice to the workflow
	RewardArgs   map[string]any // merged over the reward function's defaults
	Row          map[string]any // the raw row
	Format       TaskFormat     // the meaning of the keys of Row
	Sampling     SamplingParams // the taskset's rollout arguments; the caller of the sampler sets N and Seed
	GroupSize    int            // rollouts of the task, G
	Teacher      string         // Experience.Teacher of its rollouts, unless the workflow names another
	Eval         bool           // evaluation: training learns nothing from the task
	// Images are the digests of the row's canonical images, at format.image_key, which the run has kept; nil until a
	// rollout begins. Messages shows them.
	Images []string
	// Pack has the tasks that a rollout solves one after the other, this one first, if the workflow
	// solves packs (Requirements.Packs); else it is nil.
	Pack []*Task
}

// TaskFormat says which keys of a row mean what. A key may be a dotted path into nested objects.
// The fields are keys of the section `format` in YAML.
type TaskFormat struct {
	PromptKey       string `yaml:"prompt_key" default:"prompt" doc:"Key of the question."`
	PromptTemplate  string `yaml:"prompt_template" doc:"Question with {column} for values; replaces prompt_key. Own key of Trinity-Go."`
	ResponseKey     string `yaml:"response_key" default:"response" doc:"Key of the reference answer, or of the answer to learn (SFT, KTO)."`
	SystemPromptKey string `yaml:"system_prompt_key" doc:"Key of the system prompt."`
	SystemPrompt    string `yaml:"system_prompt" doc:"System prompt of rows that have none."`
	MessagesKey     string `yaml:"messages_key" default:"message" doc:"Key of the list of messages."`
	ToolsKey        string `yaml:"tools_key" default:"tools" doc:"Key of the tool definitions."`
	SystemTemplate  string `yaml:"system_template" doc:"System prompt written like prompt_template. Own key of Trinity-Go."`
	ReplyPrefix     string `yaml:"reply_prefix" doc:"Text that every reply starts with."`
	ChosenKey       string `yaml:"chosen_key" default:"chosen" doc:"Key of the preferred reply (DPO)."`
	RejectedKey     string `yaml:"rejected_key" default:"rejected" doc:"Key of the other reply (DPO)."`
	MarginKey       string `yaml:"margin_key" doc:"Key of how much better the preferred reply is (reward models). Own key of Trinity-Go."`
	ImageKey        string `yaml:"image_key" doc:"Key of the row's images. <image> in a text is where the next one belongs."`
	LabelKey        string `yaml:"label_key" default:"label" doc:"Key of the verdict on a reply, true or false (KTO). Own key of Trinity-Go."`
}

// Field returns the value at a dotted key of the row. A key with dots that the row has as written
// takes precedence over the nested one.
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

// Decode decodes the field at a key into a variable, as JSON. there is false, and the variable as it was,
// if the field is absent or null.
func (t *Task) Decode(key string, into any) (there bool, err error) {
	value, ok := t.Field(key)
	if !ok || value == nil {
		return false, nil
	}
	text, err := json.Marshal(wholeNumbers(value))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		err = fmt.Errorf("column %q: %w", key, err)
	}
	return true, err
}

// Text returns the field as text: numbers with the digits of the file, lists and objects as JSON. If
// the field is absent or null, the error names the key.
func (t *Task) Text(key string) (string, error) {
	v, ok := t.Field(key)
	if !ok || v == nil {
		return "", t.noColumn(key)
	}
	text, err := textOf(v)
	if err != nil {
		err = fmt.Errorf("column %q: %w", key, err)
	}
	return text, err
}

// noColumn returns the error about a column that the row lacks.
func (t *Task) noColumn(name string) error {
	if _, ok := t.Field(name); ok {
		return fmt.Errorf("column %q is null", name)
	}
	return fmt.Errorf("no column %q: the row has %s", name, strings.Join(slices.Sorted(maps.Keys(t.Row)), ", "))
}

// Truth returns the reference answer, the text at format.response_key, or "" when the taskset has
// none. A list or an object is JSON; [Task.Truths] returns the answers in a list.
func (t *Task) Truth() string {
	s, err := t.Text(t.Format.ResponseKey)
	if err != nil {
		return ""
	}
	return s
}
