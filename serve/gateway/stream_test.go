package gateway

import (
	"context"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/trinity-go/trinity"
)

// patient waits before it writes the character "#".
type patient struct{ next chan struct{} }

func (p *patient) Sample(ctx context.Context, prompt trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	says := strings.Split(chatty{}.Decode(prompt.Tokens), "'")
	c := trinity.Completion{Tokens: append(chatty{}.Encode(says[len(says)-2]), end), FinishReason: "stop", Versions: [2]int64{3, 4}}
	for i, token := range c.Tokens {
		c.Logprobs = append(c.Logprobs, -float32(i+1)/8)
		if token == '#' {
			select {
			case <-p.next:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if params.OnToken != nil {
			params.OnToken(0, token)
		}
	}
	return []trinity.Completion{c}, nil
}

// The text of a reply that calls a tool arrives before the policy has ended, and the call after it.
func TestAStreamWithToolsComesAsTheTokensCome(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	writes := &patient{next: make(chan struct{})}
	e.model.Sampler = writes
	client := sdk.NewClient(option.WithBaseURL(e.URL()), option.WithAPIKey(e.Key()))
	p := sdk.ChatCompletionNewParams{
		Model: "gpt-9", Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(`'now#!{"a": 1}'`)},
		Tools: []sdk.ChatCompletionToolUnionParam{sdk.ChatCompletionFunctionTool(sdk.FunctionDefinitionParam{Name: "f"})},
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), p)
	var whole sdk.ChatCompletionAccumulator
	for seen := ""; seen != "now"; {
		if !stream.Next() {
			t.Fatalf("%q, then %v", seen, stream.Err())
		}
		whole.AddChunk(stream.Current())
		seen += stream.Current().Choices[0].Delta.Content
	}
	close(writes.next) // only now the policy goes on
	for stream.Next() {
		whole.AddChunk(stream.Current())
	}
	m := whole.Choices[0].Message
	if stream.Err() != nil || m.Content != "now#" || len(m.ToolCalls) != 1 || m.ToolCalls[0].ID != "call00000" ||
		m.ToolCalls[0].Function.Arguments != `{"a": 1}` || whole.Choices[0].FinishReason != "tool_calls" {
		t.Errorf("%+v: %v", whole.Choices[0], stream.Err())
	}
	if _, got := e.recorded(); got != `user:'now#!{"a": 1}'|assistant:[now#!{"a": 1}|]` {
		t.Errorf("recorded %s", got)
	}
}

// A stop string that comes with the text is cut out of the stream, also where its beginning was held back.
func TestAStopStringHoldsInAStreamWithTools(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	_, text := e.ask(chat, `{"stream":true,"stop":["c#d"],"tools":[{"type":"function","function":{"name":"f"}}],`+
		`"messages":[{"role":"user","content":"'abc#de'"}]}`)
	if !strings.Contains(text, `"content":"b"`) || strings.Contains(text, `c`+`#`) || strings.Contains(text, `"content":"c"`) {
		t.Error(text)
	}
}
