package renderer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity"
)

// standInRest follows the text of a message that a reply continues. Templates trim the space behind it
// if they trim contents.
const standInRest = "trinity-rest-c1f0b7"

// Continue returns the prompt [n] of a chat whose last message is the beginning of the assistant's
// reply, and a renderer that reads the tokens of the rest. The prompt ends with the message, as that of
// transformers' continue_final_message does. An empty message begins nothing.
func (r *Renderer) Continue(messages []trinity.Message, tools json.RawMessage) (prompt []int32, rest trinity.Renderer, err error) {
	n := len(messages) - 1
	if messages[n].Content == "" && messages[n].Reasoning == "" {
		prompt, err = r.Render(messages[:n], tools, true)
		return prompt, r, err
	}
	s, err := r.see(messages, tools)
	if err != nil {
		return nil, nil, err
	}
	text, err := r.begun(s.messages, s.tools)
	if err != nil {
		return nil, nil, err
	}
	lead := s.messages[n].Content
	if r.thinking.opens { // the message has no thinking that its prompt could have opened
		lead = r.thinking.close + lead
	}
	if n > 0 {
		opening, err := r.text(s.messages[:n], s.tools, true)
		if err != nil {
			return nil, nil, err
		}
		if begun, ok := strings.CutPrefix(text, opening); ok {
			lead = begun
		}
	}
	c := &continued{Renderer: r}
	if c.lead, err = s.encode(lead, nil); err != nil {
		return nil, nil, err
	}
	c.before = r.ReadText(c.lead)
	prompt, err = s.encode(text, digestsOf(messages))
	return prompt, c, err
}

// begun returns the text of a chat up to the end of its last message, whose turn stays open.
func (r *Renderer) begun(messages []trinity.Message, tools json.RawMessage) (string, error) {
	messages = slices.Clone(messages)
	messages[len(messages)-1].Content += standInRest + " "
	whole, err := r.text(messages, tools, false)
	if err != nil {
		return "", err
	}
	at := strings.LastIndex(whole, standInRest)
	if at < 0 {
		return "", fmt.Errorf("renderer: the chat template leaves out the text of the last message, so no reply can continue it")
	}
	text := whole[:at]
	if !strings.HasPrefix(whole[at:], standInRest+" ") {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text, nil
}

// continued reads the rest of a reply whose beginning is in the prompt.
type continued struct {
	*Renderer
	lead   []int32         // tokens of the beginning
	before trinity.Message // that the beginning says
}

// Read implements [trinity.Renderer].
func (c *continued) Read(tokens []int32, tools json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	m, calls, err := c.Renderer.Read(slices.Concat(c.lead, tokens), tools)
	return c.rest(m), calls, err
}

// ReadText implements [trinity.Renderer].
func (c *continued) ReadText(tokens []int32) trinity.Message {
	return c.rest(c.Renderer.ReadText(slices.Concat(c.lead, tokens)))
}

// Settled implements [trinity.Renderer].
func (c *continued) Settled(tokens []int32, tools json.RawMessage) trinity.Message {
	return c.rest(c.Renderer.Settled(slices.Concat(c.lead, tokens), tools))
}

// rest returns what a whole reply says after its beginning.
func (c *continued) rest(m trinity.Message) trinity.Message {
	m.Reasoning, m.Content = after(m.Reasoning, c.before.Reasoning), after(m.Content, c.before.Content)
	return m
}

// after returns what text has after its beginning before; "" for a text that is only a part of it, such
// as one without its call.
func after(text, before string) string {
	if rest, ok := strings.CutPrefix(text, before); ok {
		return rest
	}
	if strings.HasPrefix(before, text) {
		return ""
	}
	return text
}
