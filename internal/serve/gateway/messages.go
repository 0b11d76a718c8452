package gateway

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/internal/wire/anthropic"
)

// messages is a request of Anthropic's Messages API that was read.
type messages struct {
	anthropic.Request
	call   *openai.Call
	params trinity.SamplingParams
	view   openai.View
	id     string // of the reply
	name   string // of the model that answers
}

// answerMessages answers a request over Anthropic's Messages API.
func (d *dialects) answerMessages(w http.ResponseWriter, r *http.Request) {
	q, err := d.readMessages(w, r)
	if err == nil && q.MaxTokens == nil { // which only a request that counts tokens may leave out
		err = openai.Bad("max_tokens", "the request has none: set it to the most tokens of a reply")
	}
	if err != nil {
		refuse(w, err)
		return
	}
	events := &messageStream{messages: q, stream: stream{w: w}}
	var grown func(trinity.Message, *trinity.Completion)
	if q.Stream {
		grown = events.grow
	}
	reply, err := d.sample(r, q.call, q.params, q.view, grown)
	switch {
	case err != nil && events.number > 0:
		_, refusal := refusalOf(err)
		events.send("error", map[string]any{"error": refusal.Error})
		return
	case err != nil:
		refuse(w, err)
		return
	}
	m := q.view.Message(reply)
	response := q.response(reply, m)
	if reply.Sent != nil {
		reply.Sent(m)
	}
	if q.Stream {
		err = events.end(response)
	} else {
		err = web.WriteJSON(w, http.StatusOK, response)
	}
	if err != nil && reply.Lost != nil {
		reply.Lost()
	}
}

// countTokens answers with the number of tokens that the policy would read.
func (d *dialects) countTokens(w http.ResponseWriter, r *http.Request) {
	q, err := d.readMessages(w, r)
	if err == nil {
		err = counted(q.call, q.Model)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string]int{"input_tokens": len(q.call.Prompt)})
}

// refuse replies with an error in the form of Anthropic's API.
func refuse(w http.ResponseWriter, err error) {
	p, refusal := refusalOf(err)
	p.Advise(w)
	web.WriteJSON(w, p.Status, refusal)
}

// refusalOf returns an error in the form of Anthropic's API.
func refusalOf(err error) (*openai.Problem, anthropic.Refusal) {
	p := openai.ProblemOf(err)
	kind := map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
		http.StatusGatewayTimeout: "timeout_error", http.StatusInternalServerError: "api_error",
	}[p.Status]
	return p, anthropic.Refusal{Type: "error", Error: anthropic.Error{Type: cmp.Or(kind, "invalid_request_error"), Message: p.About()}}
}

// messagesFields are the fields of a request that the gateway reads, or that say nothing about the
// reply: who pays, what is cached, and which version of the API the client speaks.
var messagesFields = append(fieldsOf(reflect.TypeFor[anthropic.Request]()),
	"anthropic_beta", "anthropic_version", "betas", "billing_policy", "cache_control", "diagnostics", "fallback_credit_token",
	"inference_geo", "user_profile_id", "workspace_id")

// effortless are the keys of output_config that have no effect.
var effortless = []string{"effort", "task_budget"}

// readMessages reads a request, and refuses what the gateway cannot do.
func (d *dialects) readMessages(w http.ResponseWriter, r *http.Request) (*messages, error) {
	q := &messages{}
	data, err := readFields(w, r, &q.Request, messagesFields, nil)
	if err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	for _, key := range q.withoutEffect() {
		d.api.Ignore(key)
	}
	chat, err := d.chatOf(&q.Request)
	if err != nil {
		return nil, err
	}
	model, err := d.api.Model(r, data, q.Model)
	if err != nil {
		return nil, err
	}
	tools := toolsOf(&q.Request)
	if err := openai.CheckTools(tools); err != nil {
		return nil, err
	}
	begun := len(chat) > 0 && chat[len(chat)-1].Role == "assistant"
	form, err := q.readForm(model.Defaults(), tools)
	if err != nil {
		return nil, err
	}
	form.Opens = !begun
	if q.call, err = d.api.Call(model, chat, tools, begun); err != nil {
		return nil, err
	}
	one, err := model.Defaults().OneCall("tool_choice.disable_parallel_tool_use", tools, q.ToolChoice.DisableParallelToolUse)
	if err != nil {
		return nil, err
	}
	q.view = openai.View{Renderer: q.call.Reads, Tools: tools, Stop: q.StopSequences, One: one}
	reads := q.call.Reads
	if begun { // it continues the message that it reads
		reads = d.api.Renderer
	}
	if q.Thinking.Type == enabled && !thinks(reads) {
		return nil, openai.Bad("thinking", "%q needs a model whose thinking is read (explorer.rollout_model.reasoning_parser): "+
			"want disabled or %s", enabled, adaptive)
	}
	q.id, q.name = "msg_"+rand.Text(), d.api.NameOf(model.Defaults(), q.Model)
	wish := wishes{
		temperature: q.Temperature, topP: q.TopP, topK: q.TopK, longest: "max_tokens", most: q.MaxTokens, stop: q.StopSequences, form: form,
	}
	q.params, err = wish.params(model.Defaults(), q.call.Prompt)
	return q, err
}

// check refuses values that ask for something that the gateway cannot do.
func (q *messages) check() error {
	switch {
	case len(q.Messages) == 0:
		return openai.Bad("messages", "there are no messages")
	case !slices.Contains([]string{"", "disabled", adaptive, enabled}, q.Thinking.Type):
		return openai.Bad("thinking", "%q is not supported: want disabled, %s or %s", q.Thinking.Type, adaptive, enabled)
	case len(q.StopSequences) > maxStops:
		return openai.Bad("stop_sequences", "there are %d; want at most %d", len(q.StopSequences), maxStops)
	}
	for _, stop := range q.StopSequences {
		if stop == "" || len(stop) > maxStop {
			return openai.Bad("stop_sequences", "a text of %d bytes; want 1 to %d", len(stop), maxStop)
		}
	}
	for _, t := range q.Tools {
		if t.Type != "" && t.Type != "custom" {
			return openai.Bad("tools", "a tool of type %q: only Anthropic's servers have it", t.Type)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(q.OutputConfig)) {
		if !slices.Contains(effortless, key) && key != "format" && string(compact(q.OutputConfig[key])) != "null" {
			return openai.Bad("output_config", "its key %q is not supported: leave it out", key)
		}
	}
	return nil
}

// readForm reads which form the text of the reply has, and whether it must call a tool.
func (q *messages) readForm(d openai.Defaults, tools json.RawMessage) (form openai.Wanted, err error) {
	form.Tools, form.Several = tools, !q.ToolChoice.DisableParallelToolUse
	if form.Demanded, err = q.mustCall(d, tools); err != nil {
		return form, err
	}
	if form.Demanded && q.ToolChoice.Type == "tool" {
		form.Tool = q.ToolChoice.Name
	}
	raw := q.OutputConfig["format"]
	if len(raw) == 0 || string(compact(raw)) == "null" {
		return form, nil
	}
	var f struct {
		Type   string
		Schema json.RawMessage
	}
	switch {
	case d.Constrain == nil:
		return form, openai.Bad("output_config", "its key %q is not supported: leave it out", "format")
	case json.Unmarshal(raw, &f) != nil || f.Type != "json_schema" || len(f.Schema) == 0:
		return form, openai.Bad("output_config", "format: want the type json_schema and a schema")
	}
	form.Key, form.Schema = "output_config", f.Schema
	return form, nil
}

// mustCall reports whether the reply must call a tool. It refuses a request that demands it of a model that
// cannot be held to it, unless the policy chooses nevertheless.
func (q *messages) mustCall(d openai.Defaults, tools json.RawMessage) (bool, error) {
	shown := strconv.Quote(q.ToolChoice.Type)
	switch c := q.ToolChoice; {
	case c.Type == "" || c.Type == "auto" || c.Type == "none":
		return false, nil
	case c.Type != "any" && (c.Type != "tool" || c.Name == ""):
		return false, openai.Demand{}.Refuse(shown)
	case d.Constrain == nil || d.Demand.AsAuto:
		return false, d.Demand.Refuse(shown)
	case len(tools) == 0:
		return false, openai.Bad("tool_choice", "%s without tools", shown)
	}
	return true, nil
}

// withoutEffect returns the keys without effect that agents such as Claude Code always send. They tell
// Anthropic's servers how to shorten a long context, how much to think, and which model may help. The
// gateway leaves the context to the client, and the rest to the policy.
func (q *messages) withoutEffect() (keys []string) {
	for key, value := range map[string]json.RawMessage{
		"compaction": q.Compaction, "context_management": q.ContextManagement, "fallbacks": q.Fallbacks, "speed": q.Speed,
		"output_config.effort": q.OutputConfig["effort"], "output_config.task_budget": q.OutputConfig["task_budget"],
	} {
		if len(value) > 0 && string(compact(value)) != "null" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Values of thinking that ask for the thinking. How long a model thinks is its own choice.
const (
	adaptive = "adaptive" // if the model thinks
	enabled  = "enabled"  // of a model that thinks
)

// thinks reports whether the thinking in the replies is read apart from their text.
func thinks(r trinity.Renderer) bool {
	return r.ReadText(r.Encode("<think>a</think>")).Reasoning != "" || r.ReadText(r.Encode("[THINK]a[/THINK]")).Reasoning != ""
}

// Limits of stop sequences, for which the sampler looks at every token.
const (
	maxStops = 32
	maxStop  = 256 // bytes
)

// chatOf returns the chat of a request. A result of a tool is a message of its own.
func (d *dialects) chatOf(q *anthropic.Request) (chat []trinity.Message, err error) {
	for i, m := range append([]anthropic.Message{{Role: "system", Content: q.System}}, q.Messages...) {
		if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
			return nil, openai.Bad("messages", "messages[%d].role is %q: want user, assistant or system", i-1, m.Role)
		}
		own := trinity.Message{Role: m.Role}
		var calls []trinity.ToolCall
		results := len(chat)
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				say(&own, b.Text)
			case "image":
				if err := d.showBlock(&own, &b); err != nil {
					return nil, err
				}
			case "tool_use":
				call := trinity.ToolCall{ID: b.ID, Name: b.Name, Arguments: orEmpty(b.Input)}
				if err := openai.CheckCall("messages", call); err != nil {
					return nil, err
				}
				calls = append(calls, call)
			case "tool_result":
				result := trinity.Message{Role: "tool", ToolCallID: b.ToolUseID}
				if err := d.addResult(&result, q, b.Content); err != nil {
					return nil, err
				}
				chat = append(chat, result)
			case "thinking", "redacted_thinking": // the policy's own, which its template writes
			default:
				return nil, openai.Bad("messages", "a block of type %q: want text, image, tool_use or tool_result", b.Type)
			}
		}
		own.ToolCalls = callsOf(calls)
		if own.Content != "" || own.Parts != nil || len(calls) > 0 || m.Role != "system" && len(chat) == results {
			chat = append(chat, own)
		}
	}
	return chat, nil
}

// addResult adds a tool's result to its message. A reference to a deferred tool shows the tool there, as
// templates show tools, so that the chat before it stays as it is.
func (d *dialects) addResult(m *trinity.Message, q *anthropic.Request, parts anthropic.Content) error {
	for _, part := range parts {
		switch part.Type {
		case "text":
			say(m, part.Text)
		case "image":
			if err := d.showBlock(m, &part); err != nil {
				return err
			}
		case "tool_reference":
			i := slices.IndexFunc(q.Tools, func(t anthropic.Tool) bool { return t.Name == part.ToolName })
			if i < 0 {
				return openai.Bad("messages", "a tool_reference names the tool %q, which is not in tools", part.ToolName)
			}
			data, _ := json.Marshal(toolOf(q.Tools[i])) // texts, and what was read from JSON
			say(m, string(data)+"\n")
		default:
			return openai.Bad("messages", "a tool_result has a block of type %q: want text, image or tool_reference", part.Type)
		}
	}
	return nil
}

func orEmpty(object json.RawMessage) json.RawMessage {
	if len(object) == 0 {
		return json.RawMessage("{}")
	}
	return object
}

// toolsOf returns the tools of a request in OpenAI's form, which chat templates read; nil if there
// are none or no reply may call one. It leaves out deferred tools, which tool_reference blocks show.
func toolsOf(q *anthropic.Request) json.RawMessage {
	if q.ToolChoice.Type == "none" {
		return nil
	}
	var tools []tool
	for _, t := range q.Tools {
		if !t.DeferLoading {
			tools = append(tools, toolOf(t))
		}
	}
	return written(tools)
}

func toolOf(t anthropic.Tool) tool {
	return tool{"function", toolDetail{t.Name, t.Description, t.InputSchema}}
}

// response returns the reply as the API has it.
func (q *messages) response(r openai.Reply, m trinity.Message) *anthropic.Response {
	out := q.empty()
	out.SampledFrom = openai.SampledFrom(r)
	calls := q.view.Calls(r)
	reason, stop := "end_turn", q.view.Stopped(r)
	switch {
	case len(calls) > 0:
		reason = "tool_use"
	case stop != "":
		reason = "stop_sequence"
	case r.FinishReason == "length":
		reason = "max_tokens"
	}
	out.StopReason = &reason
	if stop != "" {
		out.StopSequence = &stop
	}
	out.Usage.OutputTokens = len(r.Tokens)
	out.Content = q.blocks(m)
	for _, c := range calls {
		out.Content = append(out.Content, anthropic.Block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: c.Arguments})
	}
	return out
}

// empty returns the reply without any content.
func (q *messages) empty() *anthropic.Response {
	return &anthropic.Response{
		ID: q.id, Type: "message", Role: "assistant", Model: q.name, Content: []anthropic.Block{},
		Usage: anthropic.Usage{InputTokens: len(q.call.Prompt)},
	}
}

// blocks returns the blocks of what the policy thinks and says. Clients that do not ask for thinking
// do not expect its block.
func (q *messages) blocks(m trinity.Message) []anthropic.Block {
	blocks := []anthropic.Block{}
	if m.Reasoning != "" && (q.Thinking.Type == adaptive || q.Thinking.Type == enabled) {
		thought := m.Reasoning
		if q.Thinking.Display == "omitted" {
			thought = ""
		}
		blocks = append(blocks, anthropic.Block{Type: "thinking", Thinking: &thought, Signature: new("")})
	}
	if m.Content != "" {
		blocks = append(blocks, anthropic.Block{Type: "text", Text: m.Content})
	}
	return blocks
}
