package gateway

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// responses is a request of OpenAI's Responses API that was read.
type responses struct {
	wire.ResponsesRequest
	kept    keeper
	chat    []trinity.Message // without instructions, which hold for one request
	read    []wire.Item       // of chat
	call    *openai.Call
	params  trinity.SamplingParams
	view    openai.View
	name    string    // of the model that answers
	ids     [3]string // of the response, its thinking and its message
	created int64     // seconds since 1970
	// demanded says that the reply calls a tool, and logprobs that its text has log-probabilities.
	demanded, logprobs bool
}

// responsesFields are the fields of a request that the gateway reads or need not read.
var responsesFields = append(fieldsOf(reflect.TypeFor[wire.ResponsesRequest]()),
	"max_tool_calls", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
	"safety_identifier", "service_tier", "stream_options", "user")

// responsesNothing are values of other fields that ask for nothing.
var responsesNothing = map[string][]string{
	"background": {`false`},
	"truncation": {`"disabled"`},
}

// answerResponses answers a request over OpenAI's Responses API.
func (d *dialects) answerResponses(w http.ResponseWriter, r *http.Request) {
	q, err := d.readResponses(w, r)
	if err != nil {
		openai.Fail(w, err)
		return
	}
	events := &responseStream{responses: q, stream: stream{w: w}}
	var grown func(trinity.Message, *trinity.Completion)
	if q.Stream {
		grown = events.grow
	}
	reply, err := d.sample(r, q.call, q.params, q.view, grown)
	switch {
	case err != nil && events.number > 0:
		events.fail(err)
		return
	case err != nil:
		openai.Fail(w, err)
		return
	}
	m := q.view.Message(reply)
	response := q.response(reply, m)
	if reply.Sent != nil {
		reply.Sent(m)
	}
	if q.Store == nil || *q.Store {
		q.kept.keep(responded{response, append(slices.Clip(q.chat), m), q.read})
	}
	if q.Stream {
		err = events.end(response, &reply.Completion)
	} else {
		err = web.WriteJSON(w, http.StatusOK, response)
	}
	if err != nil && reply.Lost != nil {
		reply.Lost()
	}
}

// countInput answers with the number of tokens that the policy would read.
func (d *dialects) countInput(w http.ResponseWriter, r *http.Request) {
	q, err := d.readResponses(w, r)
	if err == nil {
		err = counted(q.call, q.Model)
	}
	if err != nil {
		openai.Fail(w, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string]any{"object": "response.input_tokens", "input_tokens": len(q.call.Prompt)})
}

// readResponses reads a request, and refuses what the gateway cannot do.
func (d *dialects) readResponses(w http.ResponseWriter, r *http.Request) (*responses, error) {
	q := &responses{}
	data, err := readFields(w, r, &q.ResponsesRequest, responsesFields, responsesNothing)
	if err != nil {
		return nil, err
	}
	q.kept = d.keeper(r)
	if q.PreviousResponseID != "" {
		before, known := q.kept.kept(q.PreviousResponseID)
		if !known {
			return nil, noResponse(http.StatusBadRequest, "previous_response_not_found", "previous_response_id", q.PreviousResponseID)
		}
		q.chat = slices.Clone(before.chat) // readInput writes into it
		q.read = slices.Concat(before.items, before.Output)
	}
	switch verbosity := q.Text.Verbosity; {
	case verbosity != "" && verbosity != "low" && verbosity != "medium": // which clients send by default
		return nil, openai.Bad("text.verbosity", "%q is not supported: leave it out", verbosity)
	case q.Reasoning.Effort != "" && q.Reasoning.Effort != "none":
		return nil, openai.Bad("reasoning.effort", "%q is not supported: the chat template decides whether the model thinks", q.Reasoning.Effort)
	}
	if err := cmp.Or(q.readInclude(), q.readInput(d.api.Renderer)); err != nil {
		return nil, err
	}
	model, err := d.api.Model(r, data, q.Model)
	if err != nil {
		return nil, err
	}
	form, err := q.readForm(model.Defaults())
	if err != nil {
		return nil, err
	}
	tools, err := q.readTools(model.Defaults(), &form)
	if err != nil {
		return nil, err
	}
	chat := q.chat
	if q.Instructions != "" {
		chat = append([]trinity.Message{{Role: "system", Content: q.Instructions}}, chat...)
	}
	if q.call, err = d.api.Call(model, chat, tools, false); err != nil {
		return nil, err
	}
	if q.logprobs && q.call.Prompt == nil {
		return nil, openai.Bad("include", "the model %.200q is asked in words and has no tokens", q.Model)
	}
	one, err := model.Defaults().OneCall("parallel_tool_calls", tools, q.ParallelToolCalls != nil && !*q.ParallelToolCalls)
	if err != nil {
		return nil, err
	}
	q.view = openai.View{Renderer: q.call.Reads, Tools: tools, One: one}
	q.name = d.api.NameOf(model.Defaults(), q.Model)
	q.ids = [3]string{"resp_" + rand.Text(), "rs_" + rand.Text(), "msg_" + rand.Text()}
	q.created = time.Now().Unix()
	wish := wishes{
		temperature: q.Temperature, topP: q.TopP, likely: q.TopLogprobs, longest: "max_output_tokens", most: q.MaxOutputTokens, form: form,
	}
	q.params, err = wish.params(model.Defaults(), q.call.Prompt)
	return q, err
}

// logprobsOfText is what a request includes for the log-probabilities of its reply.
const logprobsOfText = "message.output_text.logprobs"

// readInclude reads whether the reply has log-probabilities.
func (q *responses) readInclude() error {
	for _, what := range q.Include {
		switch what {
		case logprobsOfText:
			q.logprobs = true
		case "reasoning.encrypted_content": // which agents always send
		default:
			return openai.Bad("include", "%.80q is not supported: want %s", what, logprobsOfText)
		}
	}
	switch n := q.TopLogprobs; {
	case n < 0 || n > trinity.MaxTopLogprobs:
		return openai.Bad("top_logprobs", "it is %d; want 0 to %d", n, trinity.MaxTopLogprobs)
	case n > 0 && !q.logprobs:
		return openai.Bad("top_logprobs", "it needs %s in include", logprobsOfText)
	}
	return nil
}

// logprobsOf returns the log-probabilities of the tokens of a reply from a place on. They are those of all tokens, also of
// thinking and of what ended the reply.
func (q *responses) logprobsOf(c *trinity.Completion, from int) []wire.TokenLogprob {
	if !q.logprobs || c == nil {
		return []wire.TokenLogprob{}
	}
	return openai.TokenLogprobs(c, from, q.TopLogprobs, func(token int32) string { return q.call.Reads.Decode([]int32{token}) })
}

// readInput appends the messages of the input to the chat. A message of the assistant and the calls
// behind it are one.
func (q *responses) readInput(r trinity.Renderer) error {
	if len(q.Input) == 0 {
		return openai.Bad("input", "there is no input")
	}
	var calls []trinity.ToolCall // of the newest message
	q.read = append(q.read, identified(q.Input)...)
	for i, item := range q.Input {
		said := trinity.Message{} // what the item says and shows
		if err := addContent(&said, r, item); err != nil {
			return err
		}
		switch item.Type {
		case "", "message":
			calls = nil
			role := item.Role
			if role == "developer" { // OpenAI's newer name, which templates do not know
				role = "system"
			}
			if role != "system" && role != "user" && role != "assistant" {
				return openai.Bad("input", "input[%d].role is %q: want system, developer, user or assistant", i, item.Role)
			}
			said.Role = role
			q.chat = append(q.chat, said)
		case "function_call":
			call := trinity.ToolCall{ID: item.CallID, Name: item.Name, Arguments: json.RawMessage(*cmp.Or(item.Arguments, new("")))}
			if err := openai.CheckCall("input", call); err != nil {
				return err
			}
			if n := len(q.chat); n == 0 || q.chat[n-1].Role != "assistant" {
				q.chat, calls = append(q.chat, trinity.Message{Role: "assistant"}), nil
			}
			calls = append(calls, call)
			q.chat[len(q.chat)-1].ToolCalls = callsOf(calls)
		case "function_call_output":
			calls = nil
			said.Role, said.ToolCallID = "tool", item.CallID
			q.chat = append(q.chat, said)
		case "reasoning": // the policy's own, which its template writes
		default:
			return openai.Bad("input", "an item of type %q: want message, function_call or function_call_output", item.Type)
		}
	}
	return nil
}

// addContent adds what a message or a tool's output says and shows.
func addContent(m *trinity.Message, r trinity.Renderer, item wire.Item) error {
	for _, part := range append(slices.Clip(item.Content), item.Output...) {
		switch part.Type {
		case "input_text", "output_text", "text":
			say(m, part.Text)
		case "input_image":
			digest, err := openai.TakeImageURL(r, part.ImageURL)
			if err != nil {
				return openai.Bad("input", "%v", err)
			}
			show(m, digest)
		case "reasoning_text", "summary_text": // of an item that the gateway skips
		default:
			return openai.Bad("input", "content of type %q: want input_text, input_image or output_text", part.Type)
		}
	}
	return nil
}

// readForm reads which form the text of the reply has.
func (q *responses) readForm(d openai.Defaults) (form openai.Wanted, err error) {
	form.Opens, form.Several = true, q.ParallelToolCalls == nil || *q.ParallelToolCalls
	f := q.Text.Format
	switch {
	case f.Type == "" || f.Type == "text":
		return form, nil
	case d.Constrain == nil || f.Type != "json_object" && f.Type != "json_schema":
		return form, openai.Bad("text.format", "%q is not supported: want text", f.Type)
	case f.Type == "json_object":
		f.Schema = openai.AnyObject
	case len(f.Schema) == 0:
		return form, openai.Bad("text.format", "it has no schema")
	}
	form.Key, form.Schema = "text.format", f.Schema
	return form, nil
}

// readTools returns the tools that a reply may call, and reads whether it must.
func (q *responses) readTools(d openai.Defaults, form *openai.Wanted) (json.RawMessage, error) {
	var tools []tool
	for _, t := range q.Tools {
		if t.Type != "function" {
			return nil, openai.Bad("tools", "a tool of type %q: only OpenAI's servers have it", t.Type)
		}
		tools = append(tools, tool{"function", toolDetail{t.Name, t.Description, t.Parameters}})
	}
	out := written(tools)
	var err error
	if form.Tool, form.Demanded, err = d.Demanded(q.ToolChoice, out); err != nil {
		return nil, err
	}
	if string(compact(q.ToolChoice)) == `"none"` || len(tools) == 0 {
		return nil, nil
	}
	form.Tools, q.demanded = out, form.Demanded
	return out, openai.CheckTools(out)
}

// response returns the reply as the API has it.
func (q *responses) response(r openai.Reply, m trinity.Message) *wire.ResponsesReply {
	out := q.empty()
	out.Status, out.SampledFrom = "completed", openai.SampledFrom(r)
	if r.FinishReason == "length" {
		out.Status, out.IncompleteDetails = "incomplete", &wire.IncompleteReason{Reason: "max_output_tokens"}
	}
	calls := q.view.Calls(r)
	out.Output = q.items(m, len(calls) == 0, out.Status, &r.Completion)
	for _, c := range calls {
		out.Output = append(out.Output, wire.Item{
			Type: "function_call", ID: "fc_" + rand.Text(), CallID: c.ID, Name: c.Name, Arguments: new(string(c.Arguments)), Status: "completed",
		})
	}
	prompt, sampled := len(q.call.Prompt), len(r.Tokens)
	out.Usage = &wire.ResponsesUsage{InputTokens: prompt, OutputTokens: sampled, TotalTokens: prompt + sampled}
	return out
}

// empty returns the response without any output.
func (q *responses) empty() *wire.ResponsesReply {
	out := &wire.ResponsesReply{
		CreatedAt: q.created, ID: q.ids[0], Model: q.name, Object: "response", Output: []wire.Item{}, Status: "in_progress",
		ParallelToolCalls: *cmp.Or(q.ParallelToolCalls, new(true)), Temperature: q.Temperature, TopP: q.TopP, ToolChoice: "auto",
		Tools: append([]wire.ResponsesTool{}, q.Tools...), Metadata: map[string]string{},
	}
	if string(q.ToolChoice) == `"none"` { // whatever else the request asks, the policy chooses
		out.ToolChoice = "none"
	}
	if q.demanded {
		out.ToolChoice = "required"
	}
	maps.Copy(out.Metadata, q.Metadata)
	if q.Instructions != "" {
		out.Instructions = &q.Instructions
	}
	if q.PreviousResponseID != "" {
		out.PreviousResponseID = &q.PreviousResponseID
	}
	return out
}

// items returns the items of what the policy thinks and says. A message without text is left out unless
// the reply must have one.
func (q *responses) items(m trinity.Message, must bool, status string, so *trinity.Completion) (items []wire.Item) {
	if m.Reasoning != "" {
		items = append(items, wire.Item{
			Type: "reasoning", ID: q.ids[1], Status: "completed", Summary: []json.RawMessage{},
			Content: wire.Parts{{Type: "reasoning_text", Text: m.Reasoning}},
		})
	}
	if m.Content != "" || must {
		items = append(items, wire.Item{
			Type: "message", ID: q.ids[2], Role: "assistant", Status: status,
			Content: wire.Parts{{Type: "output_text", Text: m.Content, Annotations: []json.RawMessage{}, Logprobs: q.logprobsOf(so, 0)}},
		})
	}
	return items
}
