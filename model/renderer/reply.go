package renderer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// cutOpen cuts a prompt before the mark that opens the thinking of the reply. space follows the mark.
func (t *thinking) cutOpen(prompt string) (base, space string, opens bool) {
	at := strings.LastIndex(prompt, t.open)
	if at < 0 || strings.TrimSpace(prompt[at+len(t.open):]) != "" {
		return prompt, "", false
	}
	return prompt[:at], prompt[at+len(t.open):], true
}

// reply returns the last message of a chat as the policy writes it after its prompt: with its thinking,
// which the text of the whole chat lacks.
func (c *chat) reply(whole string) (tokens []int32, mask []bool, err error) {
	r, n := c.r, len(c.messages)-1
	before, err := c.prompt(n)
	if err != nil {
		return nil, nil, err
	}
	thought, rest := r.thinking.cut(c.given[n])
	if c.given[n].Reasoning == "" && thought != "" { // it is in the content
		if c.messages[n], err = r.messageValue(withContent(c.given[n], rest)); err != nil {
			return nil, nil, err
		}
		out, err := c.render(n+1, false)
		if err != nil {
			return nil, nil, err
		}
		whole = out.Text
	}
	base, space, opens := r.thinking.cutOpen(before)
	said, ok := strings.CutPrefix(whole, base)
	lost := r.thinking.lost(c.given[n], said)
	switch {
	case thought != "" && strings.HasSuffix(strings.TrimSpace(before), r.thinking.close):
		return nil, nil, fmt.Errorf("renderer: messages[%d] thinks, and the chat template closes the thinking in its prompt: "+
			"set model.enable_thinking: true, or leave the turn out with weight 0", n)
	case !ok || said == "" || !opens && lost == "":
		return nil, nil, fmt.Errorf("renderer: cannot find the assistant's text in messages[%d]: the chat template renders this turn not "+
			"as a continuation of its prompt; use a template with {%% generation %%} blocks, or leave the turn out with weight 0", n)
	case lost == callsPart, lost != "" && !r.thinking.marked:
		return nil, nil, fmt.Errorf("renderer: the chat template leaves out %s of messages[%d], which is to be learnt: leave the turn out with "+
			"weight 0, or set a template that writes it (model.custom_chat_template)", lost, n)
	}
	text := r.thinking.write(thought, space, said)
	if !opens {
		text = r.thinking.open + r.thinking.space + r.thinking.write(thought, r.thinking.space, said)
	}
	tokens = r.tok.Encode(before, false)
	begin := len(tokens)
	tokens = append(tokens, r.tok.Encode(text, false)...)
	mask = make([]bool, len(tokens))
	for i := begin; i < r.endOfTurn(tokens, span{begin, len(tokens)}); i++ {
		mask[i] = true
	}
	return tokens, mask, nil
}

// cut returns what a message thinks, also between the marks at the beginning of its content, and
// the rest of the content.
func (t *thinking) cut(m trinity.Message) (thought, rest string) {
	if !t.marked || m.Reasoning != "" {
		return strings.Trim(m.Reasoning, "\n"), m.Content
	}
	thought, rest, closed := strings.Cut(m.Content, t.close)
	inner, marked := strings.CutPrefix(strings.TrimSpace(thought), t.open)
	if !closed || !marked && !t.opens {
		return "", m.Content
	}
	return strings.Trim(inner, "\n"), strings.TrimLeft(rest, "\n")
}

// apart returns messages whose thinking is apart from their content, if the template reads it so. Some
// templates would write it twice.
func (r *Renderer) apart(messages []trinity.Message) []trinity.Message {
	if !r.template.Names("reasoning_content") {
		return messages
	}
	messages = slices.Clone(messages)
	for i, m := range messages {
		if thought, rest := r.thinking.cut(m); m.Role == "assistant" && m.Reasoning == "" && thought != "" {
			messages[i] = withContent(m, rest)
			messages[i].Reasoning = thought
		}
	}
	return messages
}

// Parts of a message that a template may leave out.
const (
	thinkingPart = "the thinking"
	callsPart    = "the calls of tools"
)

// lost returns which part of a message is not in the text that the template writes for it.
func (t *thinking) lost(m trinity.Message, said string) string {
	var calls []trinity.ToolCall
	if !isAbsent(m.ToolCalls) && json.Unmarshal(m.ToolCalls, &calls) == nil {
		for _, c := range calls {
			if !strings.Contains(said, c.Name) {
				return callsPart
			}
		}
	}
	if thought, _ := t.cut(m); !strings.Contains(said, strings.TrimSpace(thought)) {
		return thinkingPart
	}
	return ""
}

// write returns a reply with its thinking after the mark that opens it and space. said is what the
// template writes: with the thinking in a spelling of its own, with the mark that closes it, or without
// both.
func (t *thinking) write(thought, space, said string) string {
	if own, ok := strings.CutPrefix(strings.TrimLeft(said, "\n"), t.open); ok && strings.Contains(own, thought) {
		return strings.TrimPrefix(own, space)
	}
	if strings.HasPrefix(said, t.close) {
		return thought + said
	}
	return thought + space + t.close + space + space + said
}
