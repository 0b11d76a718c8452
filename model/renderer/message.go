package renderer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/model/renderer/internal/jinja"
)

// messageValue returns the mapping that templates see: the keys of the message's JSON form, and as in
// transformers the reasoning also under its older name "thinking".
func (r *Renderer) messageValue(m trinity.Message) (*jinja.Map, error) {
	v := &jinja.Map{}
	set := func(key, text string) { v.Set(key, strings.ToValidUTF8(text, "\uFFFD")) }
	reasons := m.Reasoning != "" && !r.forms.thinkingPart
	if reasons {
		set("thinking", m.Reasoning)
	}
	set("role", m.Role)
	content, ok, err := r.forms.content(m)
	if err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	if ok {
		v.Set("content", content)
	}
	if reasons {
		set("reasoning_content", m.Reasoning)
		if r.template.Names("reasoning") {
			set("reasoning", m.Reasoning)
		}
	}
	if !isAbsent(m.ToolCalls) {
		calls, err := jinja.FromJSON(m.ToolCalls)
		if err != nil {
			return nil, fmt.Errorf("tool_calls: %w", err)
		}
		list, ok := calls.(*jinja.List)
		if !ok {
			return nil, fmt.Errorf("tool_calls: expected a JSON array")
		}
		for _, call := range list.Items {
			r.forms.convertArguments(call)
		}
		v.Set("tool_calls", list)
	}
	if m.ToolCallID != "" {
		set("tool_call_id", m.ToolCallID)
	}
	if m.Name != "" {
		set("name", m.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
		if key == "content" {
			continue
		}
		value, err := jinja.FromJSON(m.Extra[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		v.Set(key, value)
	}
	return v, nil
}

// content returns a message's content in a form that the template reads. ok is false if the message has
// none.
func (f *forms) content(m trinity.Message) (v jinja.Value, ok bool, err error) {
	form := f.parts["user"]
	if own, known := f.parts[m.Role]; known {
		form = own
	}
	text := strings.ToValidUTF8(m.Content, "\uFFFD")
	given, isGiven := givenContent(m)
	if isGiven && isAbsent(given) && (m.Reasoning == "" || !f.thinkingPart) {
		instead := f.null
		if len(given) == 0 {
			instead = f.absent
		}
		if instead != `""` {
			return nil, instead != "", nil
		}
	}
	list := &jinja.List{}
	if m.Reasoning != "" && f.thinkingPart {
		list.Items = append(list.Items, part("thinking", strings.ToValidUTF8(m.Reasoning, "\uFFFD")))
	} else if form == contentText {
		return text, true, nil
	}
	switch {
	case isGiven && !isAbsent(given):
		parts, err := jinja.FromJSON(given)
		if err != nil {
			return nil, false, err
		}
		for _, p := range parts.(*jinja.List).Items {
			switch kind, _ := p.(*jinja.Map).Get("type"); kind {
			case "thinking":
			case "image":
				list.Items = append(list.Items, p.(*jinja.Map).Without("image"))
			default:
				list.Items = append(list.Items, p)
			}
		}
	case form == contentEither && len(list.Items) == 0:
		return text, true, nil
	case text != "" || len(list.Items) == 0:
		list.Items = append(list.Items, part("text", text))
	}
	return list, true, nil
}

// part returns a part of a content.
func part(kind, text string) *jinja.Map {
	p := &jinja.Map{}
	p.Set("type", kind)
	p.Set(kind, text)
	return p
}

// givenContent returns the content that a message was read with if that was no text: null, parts, or
// nothing. ok is false for a text, which also replaces what somebody has changed since.
func givenContent(m trinity.Message) (form json.RawMessage, ok bool) {
	if form, ok = m.Extra["content"]; !ok || isAbsent(form) {
		return form, ok && m.Content == ""
	}
	var read trinity.Message
	err := json.Unmarshal(slices.Concat([]byte(`{"role":"user","content":`), form, []byte("}")), &read)
	return form, err == nil && form[0] == '[' && read.Content == m.Content && (read.Reasoning == "" || read.Reasoning == m.Reasoning)
}

// withContent returns a message with another content.
func withContent(m trinity.Message, text string) trinity.Message {
	m.Content, m.Extra = text, maps.Clone(m.Extra)
	delete(m.Extra, "content")
	return m
}

// convertArguments gives the arguments of a call the form that the template reads. Most templates expect
// an object, and would quote a text, which OpenAI's API has, a second time.
func (f *forms) convertArguments(call jinja.Value) {
	m, ok := call.(*jinja.Map)
	if !ok {
		return
	}
	if function, ok := m.Get("function"); ok {
		if m, ok = function.(*jinja.Map); !ok {
			return
		}
	}
	switch arguments, _ := m.Get("arguments"); v := arguments.(type) {
	case string:
		if f.textArguments {
			return
		}
		if object, err := jinja.FromJSON([]byte(v)); err == nil {
			if object, ok := object.(*jinja.Map); ok {
				m.Set("arguments", object)
			}
		}
	case *jinja.Map:
		if !f.mapArguments && f.textArguments {
			if out, err := asText.Render(map[string]any{"v": v}); err == nil {
				m.Set("arguments", out.Text)
			}
		}
	}
}

// asText writes a value as JSON in the way of chat templates.
var asText = func() *jinja.Template {
	t, err := jinja.Parse("tojson", "{{ v | tojson }}")
	if err != nil {
		panic(err)
	}
	return t
}()

func isAbsent(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}
