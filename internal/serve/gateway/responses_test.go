package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	api "github.com/openai/openai-go/v3/responses"

	"github.com/trinity-go/trinity"
)

// told returns the input of a request.
func told(items ...api.ResponseInputItemUnionParam) api.ResponseNewParamsInputUnion {
	return api.ResponseNewParamsInputUnion{OfInputItemList: items}
}

// OpenAI's own client continues responses with a tool, by sending the items again and by the id of
// the newest response, streamed and not. All of it is one sequence.
func TestResponsesOfTheSDKAreOneSequence(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	client := sdk.NewClient(option.WithBaseURL(e.URL()), option.WithAPIKey(e.Key()))
	begin := api.ResponseInputItemParamOfMessage(`say 'hm!{"b": 1, "a": 1e3}'`, api.EasyInputMessageRoleUser)
	p := api.ResponseNewParams{
		Model: "gpt-9", Instructions: sdk.String("be brief"), Input: told(begin),
		Tools: []api.ToolUnionParam{api.ToolParamOfFunction("f", map[string]any{"type": "object"}, true)},
	}
	r, err := client.Responses.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Output) != 2 || r.OutputText() != "hm" || r.Output[1].CallID != "call00000" || r.Status != "completed" ||
		r.Usage.OutputTokens != 22 {
		t.Fatalf("%s", r.RawJSON())
	}
	output := api.ResponseInputItemParamOfFunctionCallOutput("'42'")
	output.OfFunctionCallOutput.CallID = sdk.String("call00000")
	p.Input = told(begin, api.ResponseInputItemParamOfMessage("hm", api.EasyInputMessageRoleAssistant),
		api.ResponseInputItemParamOfFunctionCall(`{"a":1e3,"b":1}`, "call00000", "f"), // as a client that has read and written it
		output)
	stream := client.Responses.NewStreaming(t.Context(), p)
	var last api.Response
	text, kinds := "", 0
	for stream.Next() {
		event := stream.Current()
		if event.SequenceNumber != int64(kinds) {
			t.Errorf("event %d has number %d", kinds, event.SequenceNumber)
		}
		kinds++
		if text += event.Delta; event.Type == "response.completed" {
			last = event.Response
		}
	}
	if stream.Err() != nil || text != "42" || last.OutputText() != "42" || kinds != 10 {
		t.Fatalf("%q in %d events: %v", text, kinds, stream.Err())
	}
	p.Input, p.PreviousResponseID = api.ResponseNewParamsInputUnion{OfString: sdk.String("'more'")}, sdk.String(last.ID)
	if r, err = client.Responses.New(t.Context(), p); err != nil || r.OutputText() != "more" || r.PreviousResponseID != last.ID {
		t.Fatalf("%v, %v", r, err)
	}
	_, got := e.recorded()
	want := `system:be brief|user:say 'hm!{"b": 1, "a": 1e3}'|assistant:[hm!{"b": 1, "a": 1e3}|]tool:'42'|assistant:[42|]` +
		`user:'more'|assistant:[more|]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A stream of calls, a reply that is cut, and instructions that hold for one request.
func TestFormsOfResponses(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	_, text := e.ask("/responses", `{"stream":true,"tools":[{"type":"function","name":"f"}],"input":"'!{\"a\":1}'"}`)
	var kinds []string
	for line := range strings.Lines(text) {
		if kind, ok := strings.CutPrefix(line, "event: response."); ok {
			kinds = append(kinds, strings.TrimSpace(kind))
		}
	}
	const want = "created in_progress output_item.added function_call_arguments.delta function_call_arguments.done output_item.done completed"
	if strings.Join(kinds, " ") != want || !strings.Contains(text, `"arguments":"{\"a\":1}","call_id":"call00000"`) {
		t.Errorf("%s:\n%s", kinds, text)
	}
	_, text = e.ask("/responses", `{"instructions":"first","input":[{"role":"developer","content":"x"},{"role":"user","content":`+
		`[{"type":"input_text","text":"'abcd'"}]}],"max_output_tokens":2,"store":true,"text":{"format":{"type":"text"},"verbosity":"low"},`+
		`"reasoning":{"effort":"none"}}`)
	if !strings.Contains(text, `"incomplete_details":{"reason":"max_output_tokens"}`) || !strings.Contains(text, `"status":"incomplete"`) {
		t.Error(text)
	}
	_, after, _ := strings.Cut(text, `"id":"resp_`)
	id, _, _ := strings.Cut(after, `"`)
	e.ask("/responses", `{"instructions":"second","previous_response_id":"resp_`+id+`","input":"'two'"}`)
	if _, got := e.recorded(); !strings.Contains(got, "system:first|system:x|user:'abcd'|assistant:[ab]\n") ||
		!strings.Contains(got, "system:second|system:x|user:'abcd'|assistant:ab|user:'two'|assistant:[two|]") {
		t.Errorf("recorded\n%s", got)
	}
}

// A response repeats what its request says about tools and metadata.
func TestResponsesRepeatTheirRequest(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	for fields, want := range map[string][3]string{
		``: {`"metadata":{}`, `"parallel_tool_calls":true`, `"tool_choice":"auto"`},
		`"metadata":null,"parallel_tool_calls":null,"tool_choice":null,`: {
			`"metadata":{}`, `"parallel_tool_calls":true`, `"tool_choice":"auto"`,
		},
		`"metadata":{"a":"b"},"parallel_tool_calls":false,"tool_choice": "none",`: {
			`"metadata":{"a":"b"}`, `"parallel_tool_calls":false`, `"tool_choice":"none"`,
		},
	} {
		for _, stream := range []string{"false", "true"} {
			status, text := e.ask("/responses", `{`+fields+`"stream":`+stream+`,"input":"'x'"}`)
			for _, part := range want {
				if status != http.StatusOK || strings.Count(text, part) != map[string]int{"false": 1, "true": 3}[stream] {
					t.Errorf("%s stream %s: %d %s, want %s", fields, stream, status, text, part)
				}
			}
		}
	}
}

// What the gateway cannot do is refused by the name of its field.
func TestResponsesThatAreRefused(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	for field, body := range map[string]string{
		"input":                `{}`,
		"previous_response_id": `{"previous_response_id":"resp_x","input":"hi"}`,
		"text.format":          `{"text":{"format":{"type":"json_schema"}},"input":"hi"}`,
		"reasoning.effort":     `{"reasoning":{"effort":"high"},"input":"hi"}`,
		"tool_choice":          `{"tool_choice":"required","input":"hi"}`,
		"tools":                `{"tools":[{"type":"web_search"}],"input":"hi"}`,
		"background":           `{"background":true,"input":"hi"}`,
		"conversation":         `{"conversation":"c","input":"hi"}`,
		"include":              `{"include":["file_search_call.results"],"input":"hi"}`,
		"top_logprobs":         `{"top_logprobs":2,"input":"hi"}`,
		"temperature":          `{"temperature":11,"input":"hi"}`,
		"metadata":             `{"metadata":{"a":5},"input":"hi"}`,
		"max_output_tokens":    `{"max_output_tokens":0,"input":"hi"}`,
	} {
		status, text := e.ask("/responses", body)
		if status != http.StatusBadRequest || !strings.Contains(text, fmt.Sprintf(`"param":%q`, field)) ||
			!strings.Contains(text, `"message":"`+field) {
			t.Errorf("%s: %d %s, want the field %s", body, status, text, field)
		}
	}
	for _, item := range []string{`{"type":"item_reference","id":"x"}`, `{"role":"wizard","content":"hi"}`,
		`{"type":"function_call","call_id":"c","name":"f","arguments":"{"}`, `{"role":"user","content":[{"type":"input_image"}]}`} {
		status, text := e.ask("/responses", `{"input":[`+item+`]}`)
		if status != http.StatusBadRequest || !strings.Contains(text, `"param":"input"`) {
			t.Errorf("%s: %d %s", item, status, text)
		}
	}
}

func FuzzResponses(f *testing.F) {
	f.Add(`{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","output":"x"}]}`)
	f.Add(`{"instructions":"s","stream":true,"tools":[{"type":"function","name":"f"}],"input":[{"type":"reasoning"},{"role":"assistant"}]}`)
	f.Add(`{"include":["message.output_text.logprobs"],"top_logprobs":1,"input":[{"role":"assistant","content":[{"logprobs":[{}]}]}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		e := open(t, trinity.EndpointOptions{})
		if status, text := e.ask("/responses", body+" "); status != http.StatusOK && status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, status, text)
		}
	})
}

// A client may ask for a response again, unless it said that the response is not to be kept.
func TestResponsesAreKept(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	client := sdk.NewClient(option.WithBaseURL(e.URL()), option.WithAPIKey(e.Key()))
	for _, store := range []bool{true, false} {
		p := api.ResponseNewParams{Model: "m", Input: api.ResponseNewParamsInputUnion{OfString: sdk.String("'one'")}, Store: sdk.Bool(store)}
		r, err := client.Responses.New(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := client.Responses.Get(t.Context(), r.ID, api.ResponseGetParams{})
		if store && (err != nil || again.RawJSON() != r.RawJSON()) {
			t.Errorf("%v, want %s: %v", again, r.RawJSON(), err)
		}
		if !store && (err == nil || !strings.Contains(err.Error(), "404")) {
			t.Errorf("a response that is not kept: %v", err)
		}
		status, text := e.ask("/responses/"+r.ID+"?stream=true", "")
		if store && (status != http.StatusBadRequest || !strings.Contains(text, "stream")) {
			t.Errorf("as a stream: %d %s", status, text)
		}
	}
}
