package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	also "github.com/anthropics/anthropic-sdk-go/option"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	api "github.com/openai/openai-go/v3/responses"

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
			params.OnToken(0, trinity.Sampled{Token: token})
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

// Clients join the fields of events. So the role of a reply is in one of them, and the arguments of a call
// are a text from the beginning.
func TestEventsCanBeJoined(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	const function = `{"type":"function","name":"f","parameters":{},"function":{"name":"f"}}`
	const body = `{"stream":true,"tools":[` + function + `],"input":"'hm!{}'","messages":[{"role":"user","content":"'hm!{}'"}]}`
	_, text := e.ask(chat, strings.Replace(body, `"input":"'hm!{}'",`, "", 1))
	if strings.Count(text, `"role":"assistant"`) != 1 || !strings.Contains(text, `"arguments":"{}"`) {
		t.Error(text)
	}
	_, text = e.ask("/responses", strings.Replace(body, `,"messages":[{"role":"user","content":"'hm!{}'"}]`, "", 1))
	if !strings.Contains(text, `"item":{"arguments":"","call_id"`) {
		t.Error(text)
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

// thoughtful reads what stands before "~" as thinking.
type thoughtful struct{ chatty }

func (r thoughtful) think(m trinity.Message) trinity.Message {
	if thought, rest, found := strings.Cut(m.Content, "~"); found {
		m.Reasoning, m.Content = thought, rest
	} else {
		m.Reasoning, m.Content = m.Content, ""
	}
	return m
}

func (r thoughtful) Read(tokens []int32, tools json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	m, calls, err := r.chatty.Read(tokens, tools)
	return r.think(m), calls, err
}

func (r thoughtful) ReadText(tokens []int32) trinity.Message {
	return r.think(r.chatty.ReadText(tokens))
}

func (r thoughtful) Settled(tokens []int32, tools json.RawMessage) trinity.Message {
	return r.think(r.chatty.Settled(tokens, tools))
}

// openPatient opens an endpoint whose policy thinks, and waits before "#".
func openPatient(t *testing.T) (*endpoint, *patient) {
	t.Helper()
	e := open(t, trinity.EndpointOptions{})
	writes := &patient{next: make(chan struct{})}
	e.model.Sampler, e.model.Renderer = writes, thoughtful{}
	return e, writes
}

const thoughtfulReply = `user:'hm~now#!{"a": 1}'|assistant:[hm~now#!{"a": 1}|]`

// A stream of the Responses API has the thinking as an item, and the text before the policy has ended.
func TestAStreamOfResponsesComesAsTheTokensCome(t *testing.T) {
	e, writes := openPatient(t)
	client := sdk.NewClient(option.WithBaseURL(e.URL()), option.WithAPIKey(e.Key()))
	stream := client.Responses.NewStreaming(t.Context(), api.ResponseNewParams{
		Model: "gpt-9", Input: api.ResponseNewParamsInputUnion{OfString: sdk.String(`'hm~now#!{"a": 1}'`)},
		Tools: []api.ToolUnionParam{api.ToolParamOfFunction("f", map[string]any{"type": "object"}, true)},
	})
	thought, text, ended := "", "", false
	var last api.Response
	var kinds []string
	for stream.Next() {
		event := stream.Current()
		if n := len(kinds); n == 0 || kinds[n-1] != event.Type {
			kinds = append(kinds, event.Type)
		}
		switch event.Type {
		case "response.reasoning_text.delta":
			thought += event.Delta
		case "response.output_text.delta":
			if text += event.Delta; text == "now" && !ended {
				ended = true
				close(writes.next) // only now the policy goes on
			}
		case "response.completed":
			last = event.Response
		}
	}
	if stream.Err() != nil || thought != "hm" || text != "now#" || len(last.Output) != 3 || last.Output[0].Type != "reasoning" ||
		last.Output[0].AsReasoning().Content[0].Text != "hm" ||
		last.OutputText() != "now#" || last.Output[2].CallID != "call00000" || last.Output[2].Arguments.OfString != `{"a": 1}` {
		t.Errorf("%q, %q, %s: %v", thought, text, last.RawJSON(), stream.Err())
	}
	const item, part = "response.output_item.", "response.content_part."
	want := strings.Join([]string{"response.created", "response.in_progress",
		item + "added", part + "added", "response.reasoning_text.delta", "response.reasoning_text.done", part + "done", item + "done",
		item + "added", part + "added", "response.output_text.delta", "response.output_text.done", part + "done", item + "done",
		item + "added", "response.function_call_arguments.delta", "response.function_call_arguments.done", item + "done",
		"response.completed"}, " ")
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, got := e.recorded(); got != thoughtfulReply {
		t.Errorf("recorded %s", got)
	}
}

// A stream of the Messages API has the text before the policy has ended, and the thinking as a block if
// the client asks for it.
func TestAStreamOfMessagesComesAsTheTokensCome(t *testing.T) {
	for _, thinking := range []string{"", adaptive, enabled} {
		e, writes := openPatient(t)
		client := anthropic.NewClient(also.WithBaseURL(strings.TrimSuffix(e.URL(), "/v1")), also.WithAPIKey(e.Key()))
		p := anthropic.MessageNewParams{
			Model: "claude-9", MaxTokens: 40,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(`'hm~now#!{"a": 1}'`))},
			Tools:    []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{}, "f")},
		}
		switch thinking {
		case adaptive:
			p.Thinking = anthropic.ThinkingConfigParamUnion{OfAdaptive: &anthropic.ThinkingConfigAdaptiveParam{}}
		case enabled:
			p.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
		}
		stream := client.Messages.NewStreaming(t.Context(), p)
		var whole anthropic.Message
		text, ended := "", false
		for stream.Next() {
			if err := whole.Accumulate(stream.Current()); err != nil {
				t.Fatal(err)
			}
			if text += stream.Current().Delta.Text; text == "now" && !ended {
				ended = true
				close(writes.next) // only now the policy goes on
			}
		}
		var got []string
		for _, b := range whole.Content {
			got = append(got, b.Type+":"+b.Thinking+b.Text+string(b.Input))
		}
		want := []string{`text:now#`, `tool_use:{"a": 1}`}
		if thinking != "" {
			want = append([]string{"thinking:hm"}, want...)
		}
		if stream.Err() != nil || strings.Join(got, " ") != strings.Join(want, " ") || whole.StopReason != "tool_use" {
			t.Errorf("got %s, want %s, %s: %v", got, want, whole.StopReason, stream.Err())
		}
		if _, got := e.recorded(); got != thoughtfulReply {
			t.Errorf("recorded %s", got)
		}
	}
}

// A stream whose policy fails after it has begun ends with an error in the words of its API.
func TestAStreamThatBreaksSaysSo(t *testing.T) {
	for path, want := range map[string][]string{
		"/responses": {"event: response.failed", `"status":"failed"`, `it broke"`},
		"/messages":  {"event: error", `"type":"api_error"`, `it broke"`},
	} {
		e := open(t, trinity.EndpointOptions{})
		e.model.Sampler = breaking{}
		status, text := e.ask(path, `{"stream":true,"max_output_tokens":9,"input":"hi"}`)
		if path == "/messages" {
			status, text = e.ask(path, `{"stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
		}
		for _, part := range want {
			if status != http.StatusOK || !strings.Contains(text, part) || strings.Contains(text, "completed") {
				t.Errorf("%s: %d %s, want %s", path, status, text, part)
			}
		}
		if r, err := e.Close(); r != nil || err == nil {
			t.Errorf("%s: recorded %v, %v, want the engine's error", path, r, err)
		}
	}
}

// breaking fails after its first token.
type breaking struct{}

func (breaking) Sample(_ context.Context, _ trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	if p.OnToken != nil {
		p.OnToken(0, trinity.Sampled{Token: 'a'})
	}
	return nil, fmt.Errorf("it broke")
}
