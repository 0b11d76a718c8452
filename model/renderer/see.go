package renderer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// seen is a chat as the template gets it: images are parts in the form that templates read, and a mark stands in whatever
// else looks like an image.
type seen struct {
	r        *Renderer
	messages []trinity.Message
	tools    json.RawMessage
	mark     string // "" if the model sees no images
}

// see returns a chat as the template gets it.
func (r *Renderer) see(messages []trinity.Message, tools json.RawMessage) (s *seen, err error) {
	s = &seen{r: r, messages: messages, tools: tools}
	if r.images == nil {
		if i := slices.IndexFunc(messages, func(m trinity.Message) bool { return m.Parts != nil }); i >= 0 {
			return nil, fmt.Errorf("renderer: messages[%d] has an image: %w", i, errNoImages)
		}
		return s, nil
	}
	if s.mark, err = unusedMark(messages, tools); err != nil {
		return nil, err
	}
	s.tools, s.messages = s.markJSON(tools), make([]trinity.Message, len(messages))
	for i, m := range messages {
		if s.messages[i], err = s.imageless(m); err != nil {
			return nil, fmt.Errorf("renderer: messages[%d]: %w", i, err)
		}
	}
	return s, nil
}

// imageless returns a message without Parts: its images are in the content that templates read.
func (s *seen) imageless(m trinity.Message) (trinity.Message, error) {
	parts, err := m.ContentParts()
	if err != nil {
		return m, err
	}
	_, isGiven := givenContent(m)
	m.Reasoning, m.Name, m.ToolCallID = s.markText(m.Reasoning), s.markText(m.Name), s.markText(m.ToolCallID)
	m.ToolCalls, m.Extra = s.markJSON(m.ToolCalls), maps.Clone(m.Extra)
	for key, value := range m.Extra {
		m.Extra[key] = s.markJSON(value)
	}
	if m.Parts == nil {
		if given := m.Extra["content"]; isGiven && !isAbsent(given) {
			m.Content, err = contentOf(given)
			return m, err
		}
		m.Content = s.markText(m.Content)
		return m, nil
	}
	form, known := s.r.forms.parts[m.Role]
	if !known {
		form = s.r.forms.parts["user"]
	}
	if form == contentText {
		return m, fmt.Errorf("the chat template shows no images of the %s: it reads a text in place of parts", m.Role)
	}
	m.Parts, m.Content = slices.Clone(parts), ""
	for i := range m.Parts {
		m.Parts[i].Text = s.markText(parts[i].Text)
		m.Content += m.Parts[i].Text
	}
	whole, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	var read struct{ Content json.RawMessage }
	if err := json.Unmarshal(whole, &read); err != nil {
		return m, err
	}
	if m.Parts = nil; m.Extra == nil {
		m.Extra = map[string]json.RawMessage{}
	}
	m.Extra["content"] = read.Content
	return m, nil
}

// contentOf returns the text of a content in parts.
func contentOf(form json.RawMessage) (string, error) {
	var read trinity.Message
	err := json.Unmarshal(slices.Concat([]byte(`{"role":"user","content":`), form, []byte("}")), &read)
	return read.Content, err
}

// markText puts the mark behind the first byte of each token of images in a text, so that the tokenizer does not see the
// token, and of what may become one when the template joins the text with the next.
func (s *seen) markText(text string) string {
	var out strings.Builder
	from := 0
	for i := range len(text) {
		if slices.ContainsFunc(s.r.images.Special, func(token string) bool {
			return token[0] == text[i] && // a template may trim the text
				(strings.HasPrefix(text[i:], token) || strings.HasPrefix(token, strings.TrimSpace(text[i:])))
		}) {
			out.WriteString(text[from:i+1] + s.mark)
			from = i + 1
		}
	}
	return out.String() + text[from:]
}

// markJSON marks the texts in JSON, also in JSON that is a text, as the arguments of a call may be.
func (s *seen) markJSON(raw json.RawMessage) json.RawMessage {
	var out []byte
	for from := 0; from < len(raw); {
		begin := bytes.IndexByte(raw[from:], '"')
		if begin < 0 {
			return append(out, raw[from:]...)
		}
		begin += from
		end := begin + 1 // of the text
		for end < len(raw) && raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(raw))
		out = append(append(out, raw[from:begin]...), s.markQuoted(raw[begin:end])...)
		from = end
	}
	return out
}

// markQuoted marks a text in quotes.
func (s *seen) markQuoted(quoted []byte) []byte {
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return quoted
	}
	marked := s.markText(text)
	if inner := strings.TrimSpace(text); strings.HasPrefix(inner, "{") && json.Valid([]byte(inner)) {
		marked = string(s.markJSON(json.RawMessage(text)))
	}
	if marked == text {
		return quoted
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(marked) != nil {
		return quoted
	}
	return bytes.TrimSpace(out.Bytes())
}

// unusedMark returns a character that no message has. Unicode reserves these for the use inside of
// programs.
func unusedMark(messages []trinity.Message, tools json.RawMessage) (string, error) {
	all := slices.Clone([]byte(tools))
	for _, m := range messages {
		for _, text := range []string{m.Content, m.Reasoning, m.Name, m.ToolCallID, string(m.ToolCalls)} {
			all = append(all, text...)
		}
		for _, value := range m.Extra {
			all = append(all, value...)
		}
	}
	escaped := bytes.ToLower(all)
	for c := '\uFDD0'; c <= '\uFDEF'; c++ {
		if !bytes.ContainsRune(all, c) && !bytes.Contains(escaped, fmt.Appendf(nil, `\u%x`, c)) {
			return string(c), nil
		}
	}
	return "", errors.New("renderer: the messages have all characters that Unicode reserves for programs")
}

// encode returns the tokens of a text that the template has written. Images, which have these digests, take the place of
// their placeholders, and what has a mark stays text.
func (s *seen) encode(text string, digests []string) ([]int32, error) {
	if s.mark == "" {
		return s.r.tok.Encode(text, false), nil
	}
	images := s.r.images
	pieces := strings.Split(text, images.Placeholder)
	if len(pieces)-1 != len(digests) {
		return nil, fmt.Errorf("renderer: the chat template writes %s %d times for %d images",
			images.Placeholder, len(pieces)-1, len(digests))
	}
	var out strings.Builder
	var marks []int // bytes that a mark follows
	for i, piece := range pieces {
		for j, part := range strings.Split(piece, s.mark) {
			if j > 0 {
				marks = append(marks, out.Len()-1)
			}
			out.WriteString(part)
		}
		if i == len(digests) {
			break
		}
		shown, _, err := images.shown(digests[i])
		if err != nil {
			return nil, err
		}
		out.WriteString(shown)
	}
	whole := out.String()
	var words [][2]int // that stay text
	for _, at := range marks {
		if at >= 0 && slices.ContainsFunc(images.Special, func(token string) bool { return strings.HasPrefix(whole[at:], token) }) {
			words = append(words, [2]int{at, at + 2})
		}
	}
	return s.r.tok.EncodeExcept(whole, words), nil
}
