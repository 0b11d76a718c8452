package workflow

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// bos is the first token of every text that plain encodes; all other tokens are bytes.
const bos = 256

// plain renders a chat as lines of "role: content".
type plain struct{ trinity.Renderer }

func (p plain) Render(messages []trinity.Message, _ json.RawMessage, _ bool) ([]int32, error) {
	text := ""
	for _, m := range messages {
		text += m.Role + ": " + m.Content + "\n"
	}
	return p.Encode(text + "assistant: "), nil
}

func (p plain) Bridge(_, more []trinity.Message, tools json.RawMessage, _ bool) ([]int32, error) {
	tokens, err := p.Render(more, tools, true)
	return append(p.Encode("\n")[1:], tokens[1:]...), err
}

func (p plain) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	return trinity.Message{Role: "assistant", Content: p.Decode(tokens)}, nil, nil
}

func (plain) Encode(text string) []int32 {
	tokens := []int32{bos}
	for _, b := range []byte(text) {
		tokens = append(tokens, int32(b))
	}
	return tokens
}

func (plain) Decode(tokens []int32) string {
	var text []byte
	for _, t := range tokens {
		if t != bos {
			text = append(text, byte(t))
		}
	}
	return string(text)
}

func (plain) StopTokens() []int32 { return []int32{0} }

// parrot is a sampler that always gives the same reply and remembers its last prompt.
type parrot struct {
	says   string
	reason string
	err    error

	asked  string
	params trinity.SamplingParams
}

func (p *parrot) Sample(_ context.Context, prompt trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	p.asked, p.params = plain{}.Decode(prompt.Tokens), params
	tokens := plain{}.Encode(p.says)[1:]
	logprobs := make([]float32, len(tokens))
	for i := range logprobs {
		logprobs[i] = -float32(i+1) / 8
	}
	return []trinity.Completion{{Tokens: tokens, Logprobs: logprobs, FinishReason: p.reason, Versions: [2]int64{3, 4}}}, p.err
}

// id is the rollout's ID in these tests.
var id = trinity.ExperienceID{Step: 2, Task: "taskset/5", Run: 1}

func model(p *parrot) *trinity.Model {
	params := trinity.SamplingParams{Temperature: 0.5, MaxTokens: 99, Stop: []string{"STOP"}}
	return &trinity.Model{Sampler: p, Renderer: plain{}, Params: params, ID: id}
}

// echo is a reward function that remembers its input.
type echo struct {
	got trinity.RewardInput
	err error
}

func (e *echo) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	e.got = in
	return trinity.NewReward(map[string]float64{"accuracy": 1, "format_score": 0.5}), e.err
}

// build builds a workflow from its arguments, like a run.
func build(t *testing.T, name string, args map[string]any) trinity.Workflow {
	t.Helper()
	w, err := registry.Workflows.Build(name, args)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// rollout returns a rollout of a task.
func rollout(task *trinity.Task, m *trinity.Model, reward trinity.RewardFunc) *trinity.Rollout {
	return &trinity.Rollout{Task: task, Model: m, Reward: reward, Host: noHost{}}
}

// noHost is a host without any of its services.
type noHost struct{ trinity.Host }

func task() *trinity.Task {
	return &trinity.Task{
		ID: id.Task, Row: map[string]any{"q": map[string]any{"text": "2+3?"}, "a": 5, "sys": "Be brief."},
		Format: trinity.TaskFormat{PromptKey: "q.text", ResponseKey: "a"},
	}
}
