package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/trinity-go/trinity"
)

// What all dialects demand of tools and their calls, because templates write them into the prompt.

// OneCall reports whether a reply has one call, because its request has tools and asks for that in the field param. A rollout
// refuses that: what a reply has beyond its first call would be trained on, and its client would not know of it.
func (d Defaults) OneCall(param string, tools json.RawMessage, asked bool) (bool, error) {
	if !asked || len(tools) == 0 {
		return false, nil
	}
	if !d.One {
		return false, Bad(param, "it is not supported in a rollout: a reply may have several calls; leave it out")
	}
	return true, nil
}

// ReadChat checks a chat and its tools, and returns the tools; nil if there are none. It gives roles the
// names that templates know.
func ReadChat(messages []trinity.Message, tools json.RawMessage) (json.RawMessage, error) {
	tools = noneIfEmpty(tools)
	return tools, cmp.Or(readRoles(messages), CheckTools(tools), checkCalls(messages))
}

// noneIfEmpty returns nil for tools that are null or an empty list.
func noneIfEmpty(tools json.RawMessage) json.RawMessage {
	if text := string(bytes.TrimSpace(tools)); text == "null" || text == "[]" {
		return nil
	}
	return tools
}

// CheckTools refuses tools without a name. tools have the form of chats; nil if there are none.
func CheckTools(tools json.RawMessage) error {
	if len(tools) == 0 {
		return nil
	}
	var list []struct {
		Type     string
		Function struct{ Name string }
	}
	if json.Unmarshal(tools, &list) != nil {
		return Bad("tools", "want a list of functions")
	}
	for i, t := range list {
		switch {
		case t.Type != "" && t.Type != "function":
			return Bad("tools", "tool %d is of type %.80q: want function", i+1, t.Type)
		case t.Function.Name == "":
			return Bad("tools", "function %d has no name", i+1)
		}
	}
	return nil
}

// Refuse returns the problem of a request that demands a call of a tool with what shown shows; nil if
// the policy chooses nevertheless.
func (d Demand) Refuse(shown string) error {
	if d.AsAuto {
		return nil
	}
	return Bad("tool_choice", "%s is not supported: want auto or none%s", shown, d.Hint)
}

// CheckChoice checks a value of tool_choice in OpenAI's APIs, of which chats name a function one level
// deeper than responses.
func (d Demand) CheckChoice(choice json.RawMessage) error {
	var value any
	if len(choice) == 0 || json.Unmarshal(choice, &value) == nil && asksNothing(value, []any{"auto", "none"}) {
		return nil
	}
	var named struct {
		Type, Name string
		Function   struct{ Name string }
	}
	shown := quoted("tool_choice", choice)
	if value == "required" || json.Unmarshal(choice, &named) == nil && named.Type == "function" && named.Name+named.Function.Name != "" {
		return d.Refuse(shown)
	}
	return Demand{}.Refuse(shown)
}

// CheckCall refuses a call in the field param that has no name, or arguments other than a JSON object.
func CheckCall(param string, c trinity.ToolCall) error {
	var arguments map[string]json.RawMessage
	switch {
	case c.Name == "":
		return Bad(param, "the call %q has no name of a tool", c.ID)
	case json.Unmarshal(c.Arguments, &arguments) != nil || arguments == nil:
		return Bad(param, "the arguments of the call %q of %q are not a JSON object", c.ID, c.Name)
	}
	return nil
}

// checkCalls refuses calls in a chat. Their arguments may be missing, or a text that is empty or holds
// the object.
func checkCalls(messages []trinity.Message) error {
	for _, m := range messages {
		if len(m.ToolCalls) == 0 {
			continue
		}
		var calls []trinity.ToolCall
		if json.Unmarshal(m.ToolCalls, &calls) != nil {
			return Bad("messages", "tool_calls: want a list of calls of functions")
		}
		for _, c := range calls {
			var text string
			if len(c.Arguments) == 0 || json.Unmarshal(c.Arguments, &text) == nil {
				c.Arguments = json.RawMessage(text)
			}
			if len(c.Arguments) == 0 {
				c.Arguments = json.RawMessage("{}")
			}
			if err := CheckCall("messages", c); err != nil {
				return err
			}
		}
	}
	return nil
}

// Call returns the call of a model that answers a chat. If begun is set, the last message is the
// beginning of the reply. Call says once what a chat asks for and the policy does not see.
func (s *Server) Call(m Model, messages []trinity.Message, tools json.RawMessage, begun bool) (*Call, error) {
	call, err := m.Chat(messages, tools, begun)
	if err != nil || call.Prompt == nil {
		return call, err
	}
	if last := messages[len(messages)-1]; !begun && last.Role == "assistant" {
		s.said.once("a chat ends with a message of the assistant: its turn is closed and the reply is another one; "+
			"continue_final_message continues the message", s.Say)
	}
	if len(tools) > 0 {
		s.tools.Do(func() {
			if HidesTools(s.Renderer, tools) {
				s.said.once("requests have tools, which the model's chat template leaves out: the policy does not see them; "+
					"put a template with tools into chat_template.jinja beside the model, or set model.chat_template_path", s.Say)
			}
		})
	}
	return call, nil
}

// HidesTools reports whether a chat has the same tokens with and without tools.
func HidesTools(r trinity.Renderer, tools json.RawMessage) bool {
	chat := []trinity.Message{{Role: "user", Content: "question"}}
	with, err := r.Render(chat, tools, true)
	if err != nil {
		return false
	}
	without, err := r.Render(chat, nil, true)
	return err == nil && slices.Equal(with, without)
}
