package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// What the dialects Messages and Responses share.

// maxMessages bounds the bytes of a request, which may have images.
const maxMessages = 64 << 20

// fieldsOf returns the names of the fields of a request's type in JSON.
func fieldsOf(request reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(request) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// readFields reads the body of a request into its type, and refuses fields that are not among the
// known ones, unless their values ask for nothing.
func readFields(w http.ResponseWriter, r *http.Request, into any, known []string, nothing map[string][]string) ([]byte, error) {
	data, status, err := web.Body(w, r, maxMessages)
	if err != nil {
		return nil, &openai.Problem{Status: status, Message: err.Error()}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, openai.NotJSON(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return nil, openai.NotJSON(err)
	}
	for name, value := range fields {
		if asked := string(compact(value)); asked != "null" && !slices.Contains(known, name) && !slices.Contains(nothing[name], asked) {
			return nil, openai.Bad(name, "it is not supported: leave it out")
		}
	}
	return data, nil
}

// counted returns the problem of a request for the number of tokens that the model of a call reads, if it reads words.
func counted(call *openai.Call, model string) error {
	if call.Prompt == nil {
		return openai.Bad("model", "%q is not the policy: only the policy's tokens are counted", model)
	}
	return nil
}

// wishes are what a request says about sampling.
type wishes struct {
	temperature, topP *float32
	topK              *int
	likely            int      // tokens at each place whose log-probabilities the client wants
	longest           string   // field of the request for most
	most              *int     // tokens
	stop              []string // of the field stop_sequences
	form              openai.Wanted
}

// params returns the parameters of a call.
func (q wishes) params(d openai.Defaults, prompt []int32) (p trinity.SamplingParams, err error) {
	p = d.SamplingParams
	p.N, p.Stop, p.TopLogprobs = 1, q.stop, q.likely
	if q.temperature != nil {
		p.Temperature = *q.temperature
	}
	if q.topP != nil {
		p.TopP = *q.topP
	}
	if q.topK != nil {
		p.TopK = *q.topK
	}
	if q.most != nil {
		p.MaxTokens = *q.most
	}
	if q.most != nil && *q.most < 1 {
		return p, openai.Bad(q.longest, "it is %d; want at least 1", *q.most)
	}
	if p.MinTokens > 1 && len(p.Stop) > 0 {
		return p, openai.StopsTooEarly("stop_sequences", &p)
	}
	if err := openai.CheckSampling(&p, q.topP); err != nil {
		return p, err
	}
	if err := d.Fit(&p, prompt, q.longest, q.most); err != nil {
		return p, err
	}
	err = d.Constrained(&p, q.form)
	return p, err
}

// dialects answers requests over the Messages and Responses APIs with the model of a server.
type dialects struct {
	api    *openai.Server
	keeper func(r *http.Request) keeper // of the client of a request
}

// asking are the endpoints that answer a request with a model.
func (d *dialects) asking() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /v1/responses":              d.answerResponses,
		"POST /v1/responses/input_tokens": d.countInput,
		"POST /v1/messages":               d.answerMessages,
		"POST /v1/messages/count_tokens":  d.countTokens,
	}
}

// handle adds the endpoints.
func (d *dialects) handle(mux *http.ServeMux) {
	for pattern, answer := range d.asking() {
		mux.HandleFunc(pattern, answer)
	}
	d.handleKept(mux)
	mux.HandleFunc("/v1/messages", notHere) // what Anthropic's API does not have is refused as it refuses
	mux.HandleFunc("/v1/messages/", notHere)
}

// notHere refuses a request for what no dialect has.
func notHere(w http.ResponseWriter, r *http.Request) { Fail(w, r.URL.Path, openai.NotHere(r)) }

// sample samples the one reply of a request. In a stream, grown gets what the client sees of it and its tokens so far, each
// time that it may have become more.
func (d *dialects) sample(
	r *http.Request, call *openai.Call, params trinity.SamplingParams, view openai.View,
	grown func(trinity.Message, *trinity.Completion),
) (openai.Reply, error) {
	leave, err := d.api.Enter()
	if err != nil {
		return openai.Reply{}, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), d.api.Timeout)
	defer cancel()
	var out []openai.Reply
	if grown == nil {
		out, err = call.Sample(ctx, params)
	} else {
		out, err = call.Follow(ctx, params, func(_ int, so *trinity.Completion) { grown(view.Settled(so.Tokens), so) })
	}
	if err != nil {
		return openai.Reply{}, err
	}
	return out[0], nil
}

// tool is a tool in the form of chats, which templates read.
type tool struct {
	Type     string     `json:"type"` // function
	Function toolDetail `json:"function"`
}

type toolDetail struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitzero"`
	Parameters  json.RawMessage `json:"parameters,omitzero"`
}

// written returns the tools as chats have them; nil if there are none.
func written(tools []tool) json.RawMessage {
	if len(tools) == 0 {
		return nil
	}
	out, _ := json.Marshal(tools) // texts, and what was read from JSON
	return out
}

// callsOf returns the calls of a message in JSON; nil if there are none.
func callsOf(calls []trinity.ToolCall) json.RawMessage {
	if len(calls) == 0 {
		return nil
	}
	out, _ := json.Marshal(calls) // their arguments were read from JSON
	return out
}

// stream writes server-sent events.
type stream struct {
	w      http.ResponseWriter
	failed error
	number int // of events
}

// send sends an event with fields of its kind.
func (s *stream) send(kind string, fields map[string]any) {
	if s.number == 0 {
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
	}
	fields["type"] = kind
	data, err := web.Encode(fields)
	if err == nil {
		_, err = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", kind, data)
	}
	s.failed = cmp.Or(s.failed, err, http.NewResponseController(s.w).Flush())
	s.number++
}

// growth is how much a stream has sent of a reply, whose parts come one after another: thinking, text,
// calls.
type growth struct {
	part  int  // that is being sent
	begun bool // whether it has begun
	said  int  // bytes of its text
}

// sender sends part i of a reply: its beginning, more text of it, its end.
type sender struct {
	begin func(i int)
	more  func(i int, text string)
	end   func(i int)
}

// advance sends what a stream lacks of a reply. texts are those of its parts so far, of which only the
// last one grows, unless the reply has ended.
func (g *growth) advance(texts []string, ended bool, out sender) {
	for i := g.part; i < len(texts); i++ {
		if !g.begun {
			out.begin(i)
		}
		if texts[i] != "" && len(texts[i]) > g.said {
			out.more(i, texts[i][g.said:])
		}
		g.part, g.begun, g.said = i, true, len(texts[i])
		if ended || i+1 < len(texts) {
			out.end(i)
			g.part, g.begun, g.said = i+1, false, 0
		}
	}
}
