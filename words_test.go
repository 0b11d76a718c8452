package trinity_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// speaking is a chat whose template the words of other models are written with. It closes a turn with a line that nobody learns,
// and opens a chat of training otherwise if it differs. If it thinks, it writes empty thinking before a reply, and marks the opening as
// learnt.
type speaking struct {
	trinitytest.CallingChat
	differs, thinks bool
}

const noThoughts = "~"

func (s speaking) ReadText(tokens []int32) trinity.Message {
	m := s.CallingChat.ReadText(tokens)
	m.Content = strings.TrimPrefix(m.Content, noThoughts)
	return m
}

func (s speaking) Read(tokens []int32, tools json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	m, calls, err := s.CallingChat.Read(tokens, tools)
	m.Content = strings.TrimPrefix(m.Content, noThoughts)
	return m, calls, err
}

func (s speaking) RenderTraining(messages []trinity.Message, tools json.RawMessage, _ []bool) ([]int32, []bool, error) {
	last := len(messages) - 1
	tokens, err := s.Render(messages[:last], tools, true)
	if s.differs {
		tokens[0]++
	}
	begin := len(tokens)
	text := messages[last].Content
	if s.thinks {
		text = noThoughts + text
	}
	var calls []trinity.ToolCall
	if json.Unmarshal(messages[last].ToolCalls, &calls) == nil {
		for _, c := range calls {
			text += "!" + c.Name + string(c.Arguments)
		}
	}
	tokens = append(append(tokens, s.Encode(text)...), end)
	mask := make([]bool, len(tokens)+1)
	for i := begin; i < len(tokens); i++ {
		mask[i] = true
	}
	mask[begin-1] = s.thinks
	return append(tokens, 10), mask, err
}

// worded is a sampler that answers every chat with the same words.
type worded struct {
	words  trinity.Message
	finish string
}

func (w worded) Sample(context.Context, trinity.Prompt, trinity.SamplingParams) ([]trinity.Completion, error) {
	return []trinity.Completion{{Words: &w.words, Source: "external:x", FinishReason: w.finish, Versions: [2]int64{-1, -1}}}, nil
}

func TestWordsBecomeTokens(t *testing.T) {
	question := []trinity.Message{{Role: "user", Content: "?"}}
	call := json.RawMessage(`[{"id": "c", "type": "function", "function": {"name": "add", "arguments": {"a":1}}}]`)
	for _, c := range []struct {
		words   trinity.Message
		finish  string
		differs bool
		thinks  bool
		max     int
		learnt  string // trained text
		ends    bool   // and the end of the turn
		fails   string
	}{
		{words: trinity.Message{Content: "yes"}, finish: "stop", learnt: "yes", ends: true},
		{words: trinity.Message{Content: "yes and"}, finish: "length", learnt: "yes and"},
		{words: trinity.Message{ToolCalls: call}, finish: "stop", learnt: `!add{"a":1}`, ends: true},
		{words: trinity.Message{Content: "so !add{"}, finish: "stop", fails: `read as another text: "so " in place of "so !add{"`},
		{words: trinity.Message{Content: "a", Reasoning: "because"}, finish: "stop", fails: `another reasoning: "" in place of "because"`},
		{words: trinity.Message{Content: "yes"}, finish: "stop", differs: true, fails: "otherwise than it opens a reply"},
		{words: trinity.Message{Content: "yes"}, finish: "stop", thinks: true, learnt: noThoughts + "yes", ends: true},
		{words: trinity.Message{Reasoning: "because"}, finish: "length", fails: "was cut while it thought"},
		{words: trinity.Message{Content: "yes"}, finish: "stop", max: 20, fails: "are 21 tokens of this model's tokenizer, over"},
	} {
		m := &trinity.Model{Sampler: worded{c.words, c.finish}, Renderer: speaking{differs: c.differs, thinks: c.thinks}, MaxModelLen: c.max}
		e, err := m.Chat(t.Context(), question, json.RawMessage("[{}]"))
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) || trinity.KindOf(err, "") != trinity.FailedModel {
				t.Errorf("%+v: %v, want %q", c.words, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.words, err)
			continue
		}
		var learnt []int32
		for i, is := range e.Mask {
			if is {
				learnt = append(learnt, e.Tokens[i])
			}
		}
		want := speaking{}.Encode(c.learnt)
		if c.ends {
			want = append(want, end)
		}
		if said := strings.TrimPrefix(c.learnt, noThoughts); !slices.Equal(learnt, want) || e.Response != said ||
			e.Source != "external:x" || e.Logprobs != nil || e.Versions[0] != -1 ||
			(e.Truncated == trinity.ResponseTruncated) != (c.finish == "length") || e.Check() != nil || m.SampledTokens() != len(want) {
			t.Errorf("%+v: learns %v, want %v: %+v", c.words, learnt, want, e)
		}
	}
}
