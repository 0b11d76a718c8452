// Package renderer renders chats to tokens with a model's chat template, and marks the assistant's
// tokens in a whole chat. The tokens equal those of transformers' apply_chat_template.
package renderer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/constraint"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/internal/model/toolcall"
	"github.com/trinity-go/trinity/model/renderer/internal/jinja"
)

// ChatML is the value of [Options].Template for the built-in template: <|im_start|>role, newline,
// content, <|im_end|>, newline. It supports neither tools nor thinking.
const ChatML = "chatml"

const chatMLSource = `{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}` +
	`{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// Options of a [Renderer].
type Options struct {
	Template   string         // source of a chat template, or ChatML; "" takes the tokenizer's template
	Kwargs     map[string]any // further variables of the template, such as enable_thinking
	StopTokens []int32        // ids that end a reply besides the tokenizer's EOS (eos_token_id of generation_config.json)
	// ToolCallParser names the format in which the model calls tools (package toolcall); "" finds it by
	// the template.
	ToolCallParser string
	// ToolCallPattern is the regular expression of the format plain.
	ToolCallPattern string
	// ReasoningParser names the marks around the thinking that Read takes apart from the content:
	// deepseek_r1 and qwen3 are <think> and </think>, mistral [THINK] and [/THINK]; none takes nothing
	// apart, and auto or "" does as the template.
	ReasoningParser string
	// KeepThinking lets a reply continue the tokens before it although the template would rewrite them.
	KeepThinking bool
	Images       *Images          // of a model that sees images; nil for others
	Clock        func() time.Time // the time for templates that print the date; nil is time.Now
}

// Renderer implements [trinity.Renderer]. It is safe for concurrent use.
type Renderer struct {
	tok      *tokenizer.Tokenizer
	template *jinja.Template // nil if the model has none
	kwargs   map[string]any
	stop     []int32
	calls    toolcall.Parser

	callFormat   string
	callPattern  string // of the format plain
	thinking     thinking
	oneCall      bool // the template refuses a reply with two calls
	forms        forms
	keepThinking bool
	images       *Images
	vocabulary   func() *constraint.Vocabulary // is made for the first form
}

var _ trinity.Renderer = (*Renderer)(nil)

// New returns the renderer of a tokenizer. Without a chat template it renders plain text only, and
// the errors of Render and RenderTraining say which key to set.
func New(tok *tokenizer.Tokenizer, o Options) (*Renderer, error) {
	r := &Renderer{tok: tok, kwargs: map[string]any{}, stop: stopTokens(tok, o.StopTokens), callPattern: o.ToolCallPattern,
		keepThinking: o.KeepThinking, images: o.Images}
	r.vocabulary = sync.OnceValue(func() *constraint.Vocabulary { return constraint.Of(tok, r.stop) })
	for name, id := range map[string]int32{"bos_token": tok.BOS(), "eos_token": tok.EOS(), "pad_token": tok.PAD(), "unk_token": tok.UNK()} {
		if id >= 0 {
			r.kwargs[name] = tok.Token(id)
		}
	}
	for name, v := range o.Kwargs {
		c, err := jinja.FromGo(v)
		if err != nil {
			return nil, fmt.Errorf("renderer: chat template argument %s: %w", name, err)
		}
		r.kwargs[name] = c
	}
	source := o.Template
	if source == "" {
		source = tok.ChatTemplate()
	}
	r.thinking = thinkingOf(source, o.ReasoningParser)
	var err error
	if r.callFormat, r.calls, err = toolcall.Open(o.ToolCallParser, o.ToolCallPattern, source); err != nil {
		return nil, fmt.Errorf("renderer: %w", err)
	}
	if source == "" {
		return r, nil
	}
	if source == ChatML {
		if err := knowsChatML(tok); err != nil {
			return nil, err
		}
		source = chatMLSource
	}
	if r.template, err = jinja.Parse("chat_template", source); err != nil {
		return nil, fmt.Errorf("renderer: %w", err)
	}
	if o.Clock != nil {
		r.template.Clock = o.Clock
	}
	whole := r.template.Limits.Steps
	r.template.Limits.Steps = probeSteps
	r.forms = findForms(r)
	r.thinking.opens = r.thinking.parsed && r.opensThinking()
	r.oneCall = r.rendersCalls(1) && !r.rendersCalls(2)
	r.template.Limits.Steps = whole
	return r, nil
}

// probeSteps are the most steps of each of the some thirty renders with which New learns what a template reads. A
// chat of two messages takes a few hundred; a stranger's template must not hold up the start.
const probeSteps = 500_000

// rendersCalls reports whether the template takes a reply with n calls of tools.
func (r *Renderer) rendersCalls(n int) bool {
	calls := make([]trinity.ToolCall, n)
	for i := range calls {
		calls[i] = trinity.ToolCall{ID: fmt.Sprintf("call%05d", i), Name: "f", Arguments: json.RawMessage("{}")}
	}
	list, err := json.Marshal(calls)
	if err != nil {
		return false
	}
	_, err = r.Render([]trinity.Message{{Role: "user", Content: "question"}, {Role: "assistant", ToolCalls: list}}, nil, false)
	return err == nil
}

func knowsChatML(tok *tokenizer.Tokenizer) error {
	for _, token := range []string{"<|im_start|>", "<|im_end|>"} {
		if _, ok := tok.TokenID(token); !ok {
			return fmt.Errorf("renderer: the built-in template %s needs the token %s, which the tokenizer does not have", ChatML, token)
		}
	}
	return nil
}

func stopTokens(tok *tokenizer.Tokenizer, more []int32) []int32 {
	var stop []int32
	for _, id := range append([]int32{tok.EOS()}, more...) {
		if id >= 0 && !slices.Contains(stop, id) {
			stop = append(stop, id)
		}
	}
	return stop
}

// Render returns the tokens of a chat [T]. With generate they end with the template's opening of
// the assistant's reply. tools is a JSON array of tool schemas, or nil. The error of a template's
// raise_exception contains the template's message.
func (r *Renderer) Render(messages []trinity.Message, tools json.RawMessage, generate bool) ([]int32, error) {
	s, err := r.see(messages, tools)
	if err != nil {
		return nil, err
	}
	text, err := r.text(s.messages, s.tools, generate)
	if err != nil {
		return nil, err
	}
	return s.encode(text, digestsOf(messages))
}

// text returns the text that the template writes for a chat.
func (r *Renderer) text(messages []trinity.Message, tools json.RawMessage, generate bool) (string, error) {
	c, err := r.newChat(messages, tools)
	if err != nil {
		return "", err
	}
	out, err := c.render(len(messages), generate)
	return out.Text, err
}

// Encode returns the tokens of plain text [T]. It recognises special tokens and adds those that the
// tokenizer puts around a text.
func (r *Renderer) Encode(text string) []int32 { return r.tok.Encode(text, true) }

// Decode returns the text of tokens without special tokens.
func (r *Renderer) Decode(tokens []int32) string { return r.tok.Decode(tokens, true) }

// StopTokens returns the ids that end a reply: the tokenizer's EOS and the ids of the options.
func (r *Renderer) StopTokens() []int32 { return slices.Clone(r.stop) }

// chat is a conversation converted for the template.
type chat struct {
	r        *Renderer
	given    []trinity.Message
	messages []jinja.Value // the same for the template
	tools    jinja.Value   // None without tools
}

func (r *Renderer) newChat(messages []trinity.Message, tools json.RawMessage) (*chat, error) {
	if r.template == nil {
		return nil, fmt.Errorf("renderer: the model has no chat template: "+
			"set model.chat_template_path or model.custom_chat_template (%q is built in), or use plain prompts", ChatML)
	}
	if len(messages) == 0 {
		return nil, fmt.Errorf("renderer: a chat needs at least one message")
	}
	if i := slices.IndexFunc(messages, func(m trinity.Message) bool { return m.Parts != nil }); i >= 0 {
		return nil, fmt.Errorf("renderer: messages[%d] has an image: images are rendered for the policy's prompts, not for a chat that "+
			"training learns", i)
	}
	c := &chat{r: r, given: messages}
	for i, m := range messages {
		v, err := r.messageValue(m)
		if err != nil {
			return nil, fmt.Errorf("renderer: messages[%d]: %w", i, err)
		}
		c.messages = append(c.messages, v)
	}
	if isAbsent(tools) {
		return c, nil
	}
	v, err := jinja.FromJSON(tools)
	if err != nil {
		return nil, fmt.Errorf("renderer: tools: %w", err)
	}
	if _, ok := v.(*jinja.List); !ok {
		return nil, fmt.Errorf("renderer: tools: expected a JSON array of tool schemas")
	}
	c.tools = v
	return c, nil
}

// render renders the first n messages.
func (c *chat) render(n int, generate bool) (jinja.Output, error) {
	variables := map[string]any{"documents": nil}
	maps.Copy(variables, c.r.kwargs)
	variables["messages"] = &jinja.List{Items: c.messages[:n:n]}
	variables["tools"] = c.tools
	variables["add_generation_prompt"] = generate
	out, err := c.r.template.Render(variables)
	if err != nil {
		return out, fmt.Errorf("renderer: %w", err)
	}
	return out, nil
}

// Tokenizer returns the tokenizer of the model.
func (r *Renderer) Tokenizer() *tokenizer.Tokenizer { return r.tok }

// CallFormat returns the name of the format in which the model calls tools, [toolcall.None] for a
// model that calls none.
func (r *Renderer) CallFormat() string { return r.callFormat }

// HasTemplate reports whether there is a chat template.
func (r *Renderer) HasTemplate() bool { return r.template != nil }
