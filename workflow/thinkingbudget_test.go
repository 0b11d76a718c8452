package workflow

import (
	"context"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// thinker is a sampler that writes a text token by token: a call gets what follows the text so far.
type thinker struct {
	text  string
	calls []int // MaxTokens of each call
}

func (s *thinker) Sample(_ context.Context, prompt trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	s.calls = append(s.calls, params.MaxTokens)
	_, said, _ := strings.Cut(plain{}.Decode(prompt.Tokens), "assistant: ")
	rest, reason := s.text, "stop"
	if i := strings.LastIndex(said, "</think>"); i >= 0 {
		_, rest, _ = strings.Cut(s.text, "</think>")
		rest = strings.TrimPrefix(rest, said[i+len("</think>"):])
	}
	if params.MaxTokens > 0 && len(rest) > params.MaxTokens {
		rest, reason = rest[:params.MaxTokens], "length"
	}
	tokens := plain{}.Encode(rest)[1:]
	return []trinity.Completion{{Tokens: tokens, Logprobs: make([]float32, len(tokens)), FinishReason: reason, Versions: [2]int64{1, 1}}}, nil
}

func TestThinkingBudget(t *testing.T) {
	for _, c := range []struct {
		budget, most     int
		response, prompt string
		trained          int
		cut              float64
	}{
		{20, 99, "hmm hmm</think>5", "", 16, 0},     // thinks less than the budget
		{11, 99, "hmm hmm</th</think>5", "", 12, 1}, // has begun to write the end of its thinking
		{3, 99, "hmm</think>5", "", 4, 1},           // is cut
		{3, 3, "hmm", "", 3, 0},                     // has no room for an answer
		{15, 99, "hmm hmm</think>5", "", 16, 0},     // has just ended its thinking
		{0, 99, "</think>5", "</think>", 1, 1},      // does not think
		{4, 0, "hmm </think>5", "", 5, 1},           // has no limit but the model's
	} {
		s, scored := &thinker{text: "hmm hmm</think>5"}, &echo{}
		m := model(&parrot{})
		m.Sampler, m.Params.MaxTokens = s, c.most
		task := task()
		task.Row["messages"] = []any{map[string]any{"role": "user", "content": "2+3?"}}
		w := build(t, "thinking_budget_workflow", map[string]any{"thinking_token_budget": c.budget})
		exps, err := w.Run(t.Context(), rollout(task, m, scored))
		if err != nil {
			t.Fatal(err)
		}
		e := exps[0]
		prompt := plain{}.Decode(e.Tokens[:e.PromptLen])
		if e.Response != c.response || e.TrainedTokens() != c.trained || e.Metrics["thinking_cut"] != c.cut || e.Check() != nil ||
			prompt != "user: 2+3?\nassistant: "+c.prompt || scored.got.Response != c.response {
			t.Errorf("budget %d of %d: %q after %q, %d tokens trained, %v, %v; calls %v", c.budget, c.most, e.Response, prompt,
				e.TrainedTokens(), e.Metrics, e.Check(), s.calls)
		}
		if e.Truncated != trinity.NotTruncated != (c.most == 3) {
			t.Errorf("budget %d of %d: truncated %q", c.budget, c.most, e.Truncated)
		}
	}
}

// A reply whose thinking fills the model's length stays as it is.
func TestThinkingThatFillsTheModel(t *testing.T) {
	m := model(&parrot{})
	m.Sampler = &thinker{text: "hmm hmm</think>5"}
	m.MaxModelLen = len(plain{}.Encode("user: 2+3?\nassistant: hmm"))
	w := build(t, "thinking_budget_workflow", map[string]any{"thinking_token_budget": 3})
	exps, err := w.Run(t.Context(), rollout(task(), m, &echo{}))
	if err != nil {
		t.Fatal(err)
	}
	if e := exps[0]; e.Response != "hmm" || e.Truncated != trinity.ResponseTruncated || e.TrainedTokens() != 3 || e.Check() != nil {
		t.Errorf("%+v, %v", e, e.Check())
	}
}
