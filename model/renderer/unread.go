package renderer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/model/renderer/internal/jinja"
)

// CheckKeys returns an error if messages of a row have a key that the chat template does not read, because
// the model would not see it and nothing would say so.
func (r *Renderer) CheckKeys(messages []trinity.Message) error {
	plain := !slices.ContainsFunc(messages, func(m trinity.Message) bool {
		return len(m.Extra) > 0 || m.Reasoning != "" || len(m.ToolCalls) > 0
	})
	if plain || !r.HasTemplate() {
		return nil
	}
	c, err := r.newChat(messages, nil)
	if err != nil {
		return err
	}
	return c.unread()
}

// unread returns an error for a part of a message that the template does not read. Weight is for
// training, and the names of who speaks and of a call are for servers.
func (c *chat) unread() error {
	for i, m := range c.given {
		for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
			if key == "content" || key == "weight" {
				continue
			}
			if err := c.reads(i, "remove it", key); err != nil {
				return err
			}
		}
		if m.Reasoning != "" && !c.r.forms.thinkingPart && !c.r.thinking.parsed {
			const hint = "remove it, or write it into the content as the model shall write it"
			if err := c.reads(i, hint, "reasoning_content", "reasoning", "thinking"); err != nil {
				return err
			}
		}
		if !isAbsent(m.ToolCalls) && strings.TrimSpace(string(m.ToolCalls)) != "[]" {
			if err := c.reads(i, "leave the row out", "tool_calls"); err != nil {
				return err
			}
		}
	}
	return nil
}

// reads returns an error if the template reads message i under none of the keys: it names none, and the
// chat has the same text without them. Some templates write all keys and name none.
func (c *chat) reads(i int, hint string, keys ...string) error {
	if slices.ContainsFunc(keys, c.r.template.Names) {
		return nil
	}
	with, err := c.render(len(c.messages), false)
	if err != nil {
		return err
	}
	without := *c
	without.messages = slices.Clone(c.messages)
	without.messages[i] = c.messages[i].(*jinja.Map).Without(keys...)
	if out, err := without.render(len(c.messages), false); err != nil || out.Text != with.Text {
		return nil
	}
	return fmt.Errorf("renderer: messages[%d], of the %s, has the key %s, which the chat template does not read: %s, or set a template "+
		"that reads it (model.custom_chat_template)", i, c.given[i].Role, strings.Join(keys, " or "), hint)
}
