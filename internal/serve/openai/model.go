package openai

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/constraint"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// Model answers requests. It is the model that the server serves, or the model of a rollout.
type Model interface {
	// Defaults returns what holds for a request that says nothing else.
	Defaults() Defaults
	// Chat and Text return the call that answers a chat, or continues a text of tokens. If begun is set,
	// the last message of the chat is the beginning of the reply.
	Chat(messages []trinity.Message, tools json.RawMessage, begun bool) (*Call, error)
	Text(prompt []int32) (*Call, error)
}

// Defaults are a model's sampling parameters and limits.
type Defaults struct {
	trinity.SamplingParams
	Name   string // of the model in replies; "" is the one that the request asks for
	MaxLen int    // tokens of prompt and reply; 0 is no limit
	Cut    bool   // a request for more tokens than fit gets as many as fit; else it is refused
	Demand Demand
	One    bool // a reply has one call if the request asks for that: further ones are left out
	Scores bool // a request may have several prompts, and ask for the log-probabilities of their tokens
	// Constrain compiles the form that a request asks of its replies; nil if it may not ask for one.
	Constrain func(constraint.Form) (trinity.Constraint, error)
}

// Demand is what becomes of requests that demand a call of a tool.
type Demand struct {
	AsAuto bool   // the policy chooses nevertheless
	Hint   string // what a refusal adds
}

// Call is a call of a model that waits to be sampled.
type Call struct {
	Prompt []int32          // that the model reads; nil if it is asked in words: its replies have no tokens then
	Reads  trinity.Renderer // reads the replies
	others int              // further prompts, which have p.N replies each
	// Sample returns p.N replies. If p.OnToken is set, it gets the tokens as soon as they are there,
	// or none of them.
	Sample func(ctx context.Context, p trinity.SamplingParams) ([]Reply, error)
}

// Reply is one of the replies to a request.
type Reply struct {
	trinity.Completion
	Message trinity.Message    // of a chat: what the renderer reads in the tokens
	Calls   []trinity.ToolCall // of Message
	// Malformed says why a call in Message cannot be read; "" if there is none. The client gets it as text.
	Malformed string
	// Sent is called with the message as the client gets it, just before it is sent whole, because the
	// client may act on it at once. Lost is called if it could not be sent. Both may be nil.
	Sent func(trinity.Message)
	Lost func()
	// Recorded is what a rollout keeps of the reply, less the text; nil outside of one.
	Recorded *wire.Recorded
}

// Served is a model that is the same for all requests.
type Served struct {
	Name     string
	Sampler  trinity.Sampler
	Renderer trinity.Renderer
	Params   trinity.SamplingParams // defaults for parameters that a request omits
	MaxLen   int                    // tokens of prompt and reply; 0 is no limit
	Adapters func() []string        // names under which requests sample with an adapter; nil for none
	// Constrain compiles the form of replies; nil if the model's tokens are not known.
	Constrain func(constraint.Form) (trinity.Constraint, error)
}

// Of returns the model for any request that asks for it by name, or for none.
func (m *Served) Of(_ *http.Request, _ []byte, name string) (Model, error) {
	if name == "" || name == m.Name {
		return m, nil
	}
	var adapters []string
	if m.Adapters != nil {
		adapters = m.Adapters()
	}
	if !slices.Contains(adapters, name) {
		ask := strconv.Quote(m.Name)
		for _, other := range adapters {
			ask += " or " + strconv.Quote(other)
		}
		return nil, &Problem{
			Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
			Message: fmt.Sprintf("the model %.200q is not served here: ask for %s", name, ask),
		}
	}
	adapted := *m
	adapted.Name, adapted.Params.Adapter = name, name
	return &adapted, nil
}

// Defaults implements [Model].
func (m *Served) Defaults() Defaults {
	p := m.Params
	if p.Seed == 0 { // equal requests that set no seed have different replies
		p.Seed = rand.Uint64()
	}
	return Defaults{SamplingParams: p, Name: m.Name, MaxLen: m.MaxLen, One: true, Scores: true, Constrain: m.Constrain}
}

// Chat implements [Model].
func (m *Served) Chat(messages []trinity.Message, tools json.RawMessage, begun bool) (*Call, error) {
	var prompt []int32
	var err error
	reads := m.Renderer
	if begun {
		prompt, reads, err = trinity.ContinueMessage(m.Renderer, messages, tools)
	} else {
		prompt, err = m.Renderer.Render(messages, tools, true)
	}
	if err != nil {
		return nil, Bad("messages", "%v", err)
	}
	whole, err := trinity.PromptOf(m.Renderer, prompt, messages)
	if err != nil {
		return nil, Bad("messages", "%v", err)
	}
	call := m.call(whole)
	call.Reads = reads
	if len(tools) == 0 {
		return call, nil // the client gets the text as it is
	}
	sample := call.Sample
	call.Sample = func(ctx context.Context, p trinity.SamplingParams) ([]Reply, error) {
		replies, err := sample(ctx, p)
		for i := range replies {
			replies[i].read(reads, tools)
		}
		return replies, err
	}
	return call, nil
}

// read reads the message of a reply. A call that cannot be read stays text.
func (r *Reply) read(from trinity.Renderer, tools json.RawMessage) {
	var err error
	if r.Message, r.Calls, err = from.Read(r.Tokens, tools); err != nil {
		r.Calls, r.Malformed = nil, err.Error()
	}
	for i := range r.Calls {
		if r.Calls[i].ID == "" {
			r.Calls[i].ID = "call_" + crand.Text()
		}
	}
}

// Text implements [Model].
func (m *Served) Text(prompt []int32) (*Call, error) {
	return m.call(trinity.Prompt{Tokens: prompt}), nil
}

// call returns the call that continues a prompt.
func (m *Served) call(prompt trinity.Prompt) *Call {
	if prompt.Tokens == nil { // a chat without a text; nil would mean a model that is asked in words
		prompt.Tokens = []int32{}
	}
	return &Call{Prompt: prompt.Tokens, Reads: m.Renderer, Sample: func(ctx context.Context, p trinity.SamplingParams) ([]Reply, error) {
		out, err := m.Sampler.Sample(ctx, prompt, p)
		replies := make([]Reply, len(out))
		for i := range out {
			replies[i].Completion = out[i]
		}
		return replies, err
	}}
}
