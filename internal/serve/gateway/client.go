package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// client is the model as one request sees it.
type client struct {
	*session
	request identity
}

// Defaults implements [openai.Model]. Programs ask for more tokens than a small model has, so they get
// as many as fit.
func (c *client) Defaults() openai.Defaults {
	return openai.Defaults{SamplingParams: c.model.Params, MaxLen: c.model.MaxModelLen, Cut: true, Demand: c.demand()}
}

// demand returns what becomes of requests that demand a call of a tool. Real traffic has no arguments
// of a workflow.
func (s *session) demand() openai.Demand {
	d := openai.Demand{AsAuto: s.options.ToolsAreOptional}
	if s.write == nil {
		d.Hint = "; required_tools: auto in workflow_args answers it as auto"
	}
	return d
}

// Chat implements [openai.Model]. The chat continues the newest reply in it that the policy wrote.
// Replies that the policy did not write are context.
func (c *client) Chat(messages []trinity.Message, tools json.RawMessage, begun bool) (*openai.Call, error) {
	var own trinity.Message // the beginning of the reply
	if begun {
		last := len(messages) - 1
		own, messages = messages[last], messages[:last]
		begun = own.Content != "" || own.Reasoning != "" || len(own.ToolCalls) > 0 || last == 0
	}
	parent, known, whole := c.find(messages, tools, begun)
	dialogue := c.model.Dialogue(tools)
	if parent != nil {
		dialogue = parent.dialogue.Fork()
	}
	dialogue.Add(messages[known:]...)
	reads := c.model.Renderer
	if begun {
		var err error
		dialogue.Begin(own)
		if _, reads, err = trinity.ContinueMessage(reads, dialogue.Messages(), tools); err != nil {
			return nil, openai.Bad("messages", "%v", err)
		}
	}
	prompt, err := dialogue.Prompt()
	if err != nil {
		return nil, openai.Bad("messages", "%v", err)
	}
	reply := func(ctx context.Context, option trinity.CallOption) (*node, openai.Reply, error) {
		d, temperature := dialogue.Fork(), float32(0)
		r, err := d.Reply(ctx, option, func(p *trinity.SamplingParams) { temperature = p.Temperature })
		if err != nil {
			return nil, openai.Reply{}, err
		}
		n := &node{
			parent: parent, dialogue: d, sequence: slices.Concat(prompt, r.Tokens), sampled: len(r.Tokens), temperature: temperature,
			logprobs: r.Logprobs,
		}
		if parent != nil {
			if n.depth = parent.depth + 1; parent.continuedBy(prompt, temperature) {
				n.stem = parent
			}
		}
		out := openai.Reply{Completion: r.Completion, Message: r.Message, Calls: r.Calls, Lost: func() { c.lost(n) }}
		out.Sent = func(m trinity.Message) {
			m.Content = own.Content + m.Content
			unthought := m // for clients that cut thinking out of the text
			unthought.Content = own.Content + r.Message.Content
			// For those that send the text of all tokens.
			all := trinity.Message{Role: m.Role, Content: own.Content + c.model.Renderer.Decode(r.Tokens)}
			c.sent(n, whole.and(m), whole.and(unthought), whole.and(all))
		}
		return n, out, nil
	}
	if parent == nil {
		return c.first(prompt, reads, reply)
	}
	return c.call(prompt, reads, reply), nil
}

// Text implements [openai.Model]. Each completion of plain text is a sequence of its own.
func (c *client) Text(prompt []int32) (*openai.Call, error) {
	reply := func(ctx context.Context, option trinity.CallOption) (*node, openai.Reply, error) {
		e, completion, err := c.model.Sample(ctx, prompt, option)
		if err != nil {
			return nil, openai.Reply{}, err
		}
		n := &node{text: e, sequence: e.Tokens, sampled: len(e.Tokens) - e.PromptLen}
		return n, openai.Reply{Completion: completion, Sent: func(trinity.Message) { c.sent(n) }, Lost: func() { c.lost(n) }}, nil
	}
	return c.first(prompt, c.model.Renderer, reply)
}

// first returns the call that begins a sequence, unless its prompt is longer than the run allows.
func (c *client) first(prompt []int32, reads trinity.Renderer, reply replier) (*openai.Call, error) {
	if most := c.model.MaxPromptLen; most > 0 && len(prompt) > most {
		return nil, openai.TooLong("messages", "the prompt has %d tokens, and model.max_prompt_tokens is %d", len(prompt), most)
	}
	return c.call(prompt, reads, reply), nil
}

// replier samples one reply.
type replier func(context.Context, trinity.CallOption) (*node, openai.Reply, error)

// call returns the call that makes as many replies as the request asks for.
func (c *client) call(prompt []int32, reads trinity.Renderer, reply replier) *openai.Call {
	sample := func(ctx context.Context, p trinity.SamplingParams) ([]openai.Reply, error) {
		if changed := p.Changed(); changed != "" && c.options.Sampling == trinity.SamplingOfRequest && !p.Untrained {
			key, _, _ := strings.Cut(changed, " ")
			return nil, openai.Bad(key, "%s for tokens that are trained on: leave it out", changed)
		}
		first, err := c.reserve(p.N)
		if err != nil {
			return nil, err
		}
		begun := c.begin(p.N)
		ctx, enough := c.within(ctx)
		defer enough()
		replies, nodes := make([]openai.Reply, p.N), make([]*node, p.N)
		var streaming sync.Mutex
		eg, ctx := errgroup.WithContext(ctx)
		for i := range replies {
			eg.Go(func() (err error) {
				var n *node
				defer func() {
					if fault := recover(); fault != nil {
						err = fmt.Errorf("panic: %v", fault)
					}
					c.end(n, err)
				}()
				var r openai.Reply
				if n, r, err = reply(ctx, c.option(p, i, &streaming)); err == nil {
					n.number, n.begun, replies[i], nodes[i] = first+i, begun, r, n
					replies[i].Recorded = &wire.Recorded{PromptLength: n.path(c.options.Steps)[0].before(), Turn: n.number}
				}
				return err
			})
		}
		if err = eg.Wait(); err == nil {
			err = c.keepReplies(nodes, c.request.digest)
		}
		switch {
		case errors.Is(err, trinity.ErrNoTokens):
			err = c.noTokens() // calls at once took what was left
		case errors.Is(err, trinity.ErrNoRoom):
			err = openai.TooLong("messages", "the prompt has %d tokens, which leaves no room for a reply", len(prompt))
		}
		return replies, err
	}
	return &openai.Call{Prompt: prompt, Reads: reads, Sample: func(ctx context.Context, p trinity.SamplingParams) ([]openai.Reply, error) {
		return c.once(ctx, c.request, func(ctx context.Context) ([]openai.Reply, error) { return sample(ctx, p) })
	}}
}

// option applies a request's parameters to reply i.
func (c *client) option(asked trinity.SamplingParams, i int, streaming *sync.Mutex) trinity.CallOption {
	return func(p *trinity.SamplingParams) {
		own := *p
		*p = asked
		if c.options.Sampling != trinity.SamplingOfRequest {
			p.Temperature, p.TopP, p.TopK, p.MinP = own.Temperature, own.TopP, own.TopK, own.MinP
			p.RepetitionPenalty, p.PresencePenalty, p.FrequencyPenalty, p.LogitBias, p.Seed =
				own.RepetitionPenalty, own.PresencePenalty, own.FrequencyPenalty, own.LogitBias, own.Seed
		}
		if i > 0 { // so that the order of the choices depends on seeds alone
			p.Seed = trinity.Seed(p.Seed, 0, "", i)
		}
		p.Hold = c.model.Ended // the program may continue its completions of plain text
		if p.Adapter = own.Adapter; own.MaxTokens > 0 {
			p.MaxTokens = min(p.MaxTokens, own.MaxTokens) // for which the run has planned its memory
		}
		if asked.OnToken != nil {
			p.OnToken = func(_ int, s trinity.Sampled) {
				streaming.Lock() // the replies of one request share its stream
				defer streaming.Unlock()
				asked.OnToken(i, s)
			}
		}
	}
}

// find returns the node that a chat continues, nil if there is none, and the messages up to it; whole
// is the digest of all messages. begun says that the beginning of a reply follows them.
func (s *session) find(messages []trinity.Message, tools json.RawMessage, begun bool) (n *node, known int, whole digest) {
	whole = sha256.Sum256(compact(tools))
	chats := make([]digest, len(messages)) // until each message
	for i, m := range messages {
		whole = whole.and(m)
		chats[i] = whole
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := len(messages) - 2 // the last message is no reply
	if begun {
		newest++
	}
	for i := newest; i >= 0; i-- {
		if n = s.chats[chats[i]]; n != nil {
			n.received = max(1, n.received) // whoever sends it back has got it
			return n, i + 1, whole
		}
	}
	return nil, 0, whole
}

// and returns the digest of a chat with one more message. Calls count by their ids and the values of
// their arguments, because clients write JSON anew. Thinking, the name and other keys of the assistant
// do not count, because clients drop or add them.
func (d digest) and(m trinity.Message) digest {
	h := sha256.New()
	h.Write(d[:])
	if m.Role == "assistant" {
		m.Name, m.Extra = "", nil
	}
	parts := []string{m.Role, strings.TrimSpace(strings.ToValidUTF8(m.Content, "\uFFFD")), m.ToolCallID, m.Name}
	for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
		if key != "content" { // its text counts, however it is given
			parts = append(parts, key, string(compact(m.Extra[key])))
		}
	}
	before := 0 // bytes of text
	for _, p := range m.Parts {
		if before += len(p.Text); p.Image != "" {
			parts = append(parts, p.Image, strconv.Itoa(before))
		}
	}
	var calls []call
	if len(m.ToolCalls) > 0 && json.Unmarshal(m.ToolCalls, &calls) != nil {
		parts = append(parts, string(m.ToolCalls))
	}
	for _, c := range calls {
		parts = append(parts, c.ID, c.Function.Name, string(c.Function.arguments()))
	}
	fmt.Fprintf(h, "%q", parts)
	return digest(h.Sum(nil))
}

// call is an entry of a message's tool_calls.
type call struct {
	ID       string   `json:"id"`
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object, or its text
}

// arguments returns the arguments with sorted keys and without spaces.
func (f *function) arguments() []byte {
	raw := f.Arguments
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	return compact(raw)
}

// compact returns JSON with sorted keys and without spaces, or the text as it is if it is no JSON.
func compact(raw []byte) []byte {
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // large numbers differ
	if d.Decode(&value) != nil {
		return raw
	}
	out, err := web.Encode(value)
	if err != nil {
		return raw
	}
	return out
}
