package gateway

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/trinity-go/trinity"
)

// Anthropic's own client continues a chat with a tool, streamed and not. All of it is one sequence.
func TestMessagesOfTheSDKAreOneSequence(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	client := anthropic.NewClient(option.WithBaseURL(strings.TrimSuffix(e.URL(), "/v1")), option.WithAPIKey(e.Key()))
	p := anthropic.MessageNewParams{
		Model: "claude-9", MaxTokens: 60, System: []anthropic.TextBlockParam{{Text: "be brief"}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(`say 'hm!{"b": 1, "a": 1e3}'`))},
		Tools:    []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{}, "f")},
	}
	m, err := client.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Content) != 2 || m.Content[0].Text != "hm" || m.StopReason != anthropic.StopReasonToolUse {
		t.Fatalf("%s", m.RawJSON())
	}
	use := m.Content[1]
	var input map[string]any
	if err := json.Unmarshal(use.Input, &input); err != nil || use.Name != "f" || input["a"] != 1e3 {
		t.Errorf("%s: %v", use.Input, err)
	}
	p.Messages = append(p.Messages, m.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(use.ID, "'42'", false)))
	counted, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
		Model: p.Model, Messages: p.Messages, System: anthropic.MessageCountTokensParamsSystemUnion{OfTextBlockArray: p.System},
	})
	if err != nil || counted.InputTokens == 0 {
		t.Errorf("%v tokens, %v", counted, err)
	}
	stream := client.Messages.NewStreaming(t.Context(), p)
	var last anthropic.Message
	for stream.Next() {
		if err := last.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if stream.Err() != nil || len(last.Content) != 1 || last.Content[0].Text != "42" || last.StopReason != anthropic.StopReasonEndTurn ||
		last.Usage.OutputTokens != 3 {
		t.Errorf("%+v: %v", last.Content, stream.Err())
	}
	p.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
	var refused *anthropic.Error
	if _, err := client.Messages.New(t.Context(), p); !errors.As(err, &refused) || refused.StatusCode != 400 ||
		!strings.Contains(err.Error(), "tool_choice") {
		t.Errorf("error %v", err)
	}
	_, got := e.recorded()
	if want := `system:be brief|user:say 'hm!{"b": 1, "a": 1e3}'|assistant:[hm!{"b": 1, "a": 1e3}|]tool:'42'|assistant:[42|]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
