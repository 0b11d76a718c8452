package trinity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Dialogue is a chat with the policy, to which messages are only added. What the policy sampled is
// never tokenized again: a reply continues the tokens of the replies before it. Only where the chat
// template rewrites earlier turns, a reply begins a new sequence.
//
// One goroutine at a time may use a Dialogue. Its forks are dialogues of their own.
type Dialogue struct {
	model     *Model
	tools     json.RawMessage
	messages  []Message
	seen      int      // messages until the newest reply, this one included
	replies   []*reply // oldest first
	calls     int      // ids that the dialogue has given to calls of tools
	ids       []string // of all calls of tools
	malformed int      // replies with a call that cannot be read
	calling   int      // replies with a call
	begun     bool     // the newest message is the beginning of the next reply
	pending   *reply   // the next reply, if its prompt is known already
	truncated *Experience
}

// reply is a node of the tree of calls.
type reply struct {
	called
	stem   *reply  // the reply that the sequence continues; nil where a sequence begins
	prompt []int32 // tokens since the stem, else the whole prompt
	images []Image // of prompt
	asked  string  // the newest message before the reply
	reads  Renderer
	of     *Dialogue
}

// CallOption changes the sampling parameters of one call.
type CallOption func(*SamplingParams)

// Reply is what the policy answered.
type Reply struct {
	Message   Message // or the rest of the message that began it
	Calls     []ToolCall
	Malformed string // why a call cannot be read; "" if there is none
	Completion
}

// Dialogue begins a chat with the policy, which may call tools, a JSON array of schemas or nil.
func (m *Model) Dialogue(tools json.RawMessage) *Dialogue { return &Dialogue{model: m, tools: tools} }

// Add adds messages, which the policy reads before its next reply. Training learns none of them, also
// those whose role is the assistant's.
func (d *Dialogue) Add(messages ...Message) {
	d.messages, d.begun, d.pending = append(d.messages, messages...), false, nil
}

// Begin adds the beginning of the policy's next reply, a message of the assistant. The policy continues
// it, and training learns only the rest.
func (d *Dialogue) Begin(m Message) {
	d.Add(m)
	d.begun = true
}

// Prompt returns the tokens [n] that the policy reads before its next reply.
func (d *Dialogue) Prompt() ([]int32, error) {
	next, err := d.next()
	if err != nil {
		return nil, err
	}
	return next.sequence(), nil
}

// Reply asks for the policy's next reply. The error is ErrNoRoom if the dialogue must end.
func (d *Dialogue) Reply(ctx context.Context, options ...CallOption) (*Reply, error) {
	next, err := d.next()
	if err != nil {
		return nil, err
	}
	sequence := next.sequence()
	if len(d.replies) == 0 && d.model.MaxPromptLen > 0 && len(sequence) > d.model.MaxPromptLen {
		if err := d.model.refusePrompt(sequence); err != nil {
			return nil, err
		}
		d.truncated = d.model.truncatedPrompt(0, sequence, next.images)
		return nil, ErrNoRoom
	}
	images := next.shown()
	files, err := filesOf(d.model.Renderer, images)
	if err != nil {
		return nil, err
	}
	asked := Prompt{Tokens: sequence, Images: files}
	if next.stem != nil {
		asked.Experts = next.stem.Experts
	}
	if next.called, err = d.model.call(ctx, asked, append(slices.Clip(options), d.model.hold)...); err != nil {
		switch {
		case len(d.replies) > 0 || !errors.Is(err, ErrNoRoom):
		case errors.Is(err, ErrNoTokens):
			err = fmt.Errorf("rollout %s may sample %d tokens (explorer.max_rollout_tokens), which leaves none for this dialogue",
				d.model.ID, d.model.MaxTokens)
		default:
			err = d.model.noRoom(sequence)
		}
		return nil, err
	}
	if next.stem != nil && next.stem.temperature != next.temperature {
		next.stem, next.prompt, next.images = nil, sequence, images // an experience has one temperature
	}
	d.replies, d.pending = append(d.replies, next), nil
	return d.read(next), nil
}

// next returns the node of the next reply with its prompt.
func (d *Dialogue) next() (*reply, error) {
	if len(d.messages) == d.seen {
		return nil, errors.New("a reply without a new message: add one first")
	}
	if d.pending != nil {
		return d.pending, nil
	}
	next := &reply{reads: d.model.Renderer}
	last, more := len(d.messages)-1, d.messages[d.seen:]
	var begun []int32 // the beginning of the reply
	var whole []int32 // the prompt of a new sequence, if it is known
	var err error
	if next.asked = d.messages[last].Content; d.begun {
		if whole, next.reads, err = ContinueMessage(d.model.Renderer, d.messages, d.tools); err != nil {
			return nil, err
		}
		if next.asked, more = "", more[:len(more)-1]; last > 0 {
			next.asked = d.messages[last-1].Content
		}
		begun = d.beginning(whole)
	}
	if len(d.replies) > 0 && (begun != nil || !d.begun) {
		next.stem = d.replies[len(d.replies)-1]
		next.prompt, err = d.model.Renderer.Bridge(d.messages[:d.seen:d.seen], more, d.tools, next.stem.ended)
		next.prompt = append(next.prompt, begun...)
		if errors.Is(err, ErrRewritesHistory) && !d.model.FailOnRewrite {
			next.stem = nil
		}
	}
	switch {
	case next.stem != nil:
	case whole != nil:
		next.prompt, more, err = whole, d.messages, nil
	default:
		more = d.messages
		next.prompt, err = d.model.Renderer.Render(d.messages, d.tools, true)
	}
	if err == nil {
		next.images, err = imagesIn(d.model.Renderer, next.prompt, more)
	}
	if err == nil {
		d.pending = next
	}
	return next, err
}

// beginning returns what a prompt has after the opening of the reply that the newest message begins. It
// is nil if a bridge cannot end with it: the message follows a reply of the policy at once, or the
// template opens the reply otherwise.
func (d *Dialogue) beginning(prompt []int32) []int32 {
	last := len(d.messages) - 1
	if last <= d.seen {
		return nil
	}
	opening, err := d.model.Renderer.Render(d.messages[:last], d.tools, true)
	if err != nil || len(opening) >= len(prompt) || !slices.Equal(opening, prompt[:len(opening)]) {
		return nil
	}
	return prompt[len(opening):]
}

// sequence returns the tokens that the sampler reads before the reply.
func (r *reply) sequence() []int32 {
	if r.stem == nil {
		return r.prompt
	}
	return slices.Concat(r.stem.sequence(), r.stem.Tokens, r.prompt)
}

// shown returns the images in sequence.
func (r *reply) shown() []Image {
	if r.stem == nil {
		return r.images
	}
	return slices.Concat(r.stem.shown(), moved(r.images, len(r.stem.sequence())+len(r.stem.Tokens)))
}

// read adds the reply's message to the chat.
func (d *Dialogue) read(r *reply) *Reply {
	message, calls, err := r.reads.Read(r.Tokens, d.tools)
	out := &Reply{Message: message, Calls: calls, Completion: r.Completion}
	if err != nil {
		out.Malformed = err.Error()
		d.malformed++
	}
	if len(calls) > 0 {
		d.calling++
		for i := range calls {
			for calls[i].ID == "" || slices.Contains(d.ids, calls[i].ID) {
				calls[i].ID = fmt.Sprintf("call%05d", d.calls)
				d.calls++
			}
			d.ids = append(d.ids, calls[i].ID)
		}
		// Renderer.Read gives arguments that are JSON, so this cannot fail.
		out.Message.ToolCalls, _ = json.Marshal(calls)
	}
	message = out.Message
	if d.begun {
		last := len(d.messages) - 1
		begun := d.messages[last]
		message.Reasoning, message.Content = begun.Reasoning+message.Reasoning, begun.Content+message.Content
		d.messages = d.messages[:last:last]
	}
	d.messages, d.begun = append(d.messages, message), false
	d.seen = len(d.messages)
	return out
}

// Fork returns a dialogue that continues d on its own. Training learns the replies so far in one of
// both: in the one whose experiences are asked for first.
func (d *Dialogue) Fork() *Dialogue {
	fork := *d
	fork.messages, fork.replies, fork.ids = slices.Clip(d.messages), slices.Clip(d.replies), slices.Clip(d.ids)
	if d.pending != nil {
		pending := *d.pending
		fork.pending = &pending
	}
	return &fork
}

// Messages returns the chat so far.
func (d *Dialogue) Messages() []Message { return slices.Clone(d.messages) }

// Whole returns the dialogue as one unscored experience, and as one more for each time that the
// template rewrote earlier turns. Training learns the policy's tokens. Without a reply there is no
// experience, except for a truncated prompt.
func (d *Dialogue) Whole() []*Experience {
	var out []*Experience
	for _, r := range d.replies {
		between := r.prompt
		if r.stem == nil {
			out, between = append(out, d.model.begin(r.turn, r.prompt, r.images, r.called)), nil
			out[len(out)-1].Prompt = r.asked
		}
		e := out[len(out)-1]
		if r.stem != nil {
			e.Images = append(e.Images, moved(r.images, len(e.Tokens))...)
		}
		e.extend(between, r.Completion, d.claim(r))
		e.Response = d.model.Renderer.Decode(r.Tokens)
	}
	return d.describe(out)
}

// Steps returns each reply as an unscored experience, whose prompt is everything before it. Replies
// that another fork has returned are left out.
func (d *Dialogue) Steps() []*Experience {
	var out []*Experience
	for _, r := range d.replies {
		if !d.claim(r) {
			continue
		}
		e := d.model.record(r.sequence(), r.shown(), r.called)
		e.Prompt = r.asked
		out = append(out, e)
	}
	return d.describe(out)
}

// claim reports whether training learns a reply in this dialogue and not in a fork.
func (d *Dialogue) claim(r *reply) bool {
	d.model.calls.mu.Lock()
	defer d.model.calls.mu.Unlock()
	if r.of == nil {
		r.of = d
	}
	return r.of == d
}

// describe writes the dialogue's metrics into its first experience.
func (d *Dialogue) describe(out []*Experience) []*Experience {
	if d.truncated != nil {
		return []*Experience{d.truncated}
	}
	if len(out) == 0 {
		return nil
	}
	m := map[string]float64{"turns": float64(len(d.replies))}
	branches := 0
	for _, r := range d.replies[1:] {
		if r.stem == nil {
			branches++
		}
	}
	if later := len(d.replies) - 1; later > 0 {
		m["branch_count"] = float64(branches)
		m["extension_rate"] = float64(later-branches) / float64(later)
	}
	if len(d.tools) > 0 {
		m["tool_call_rate"] = float64(d.calling) / float64(len(d.replies))
		m["tool_call_malformed_rate"] = float64(d.malformed) / float64(len(d.replies))
	}
	out[0].Metrics = m
	return out
}
