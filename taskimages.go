package trinity

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// imageMark is where a text of the user wants the next image.
const imageMark = "<image>"

// ShowImages returns a chat that shows images, by their digests: in place of each <image> in the texts
// of the user, in order. If there are more images, the first of them come before the first text of the
// user. It is an error if there are fewer.
func ShowImages(chat []Message, images []string) ([]Message, error) {
	marks, first := 0, -1
	for i, m := range chat {
		if !isText(m) {
			continue
		}
		if marks += strings.Count(m.Content, imageMark); first < 0 {
			first = i
		}
	}
	switch {
	case marks > len(images):
		return nil, fmt.Errorf("the texts of the user have %s %d times, and the row has %d images", imageMark, marks, len(images))
	case len(images) == 0:
		return chat, nil
	case first < 0:
		return nil, errors.New("the row has images, and its chat has no text of the user beside which they could be shown")
	}
	out, left := slices.Clone(chat), images
	for i := first; i < len(out); i++ {
		m := &out[i]
		if !isText(*m) {
			continue
		}
		text := m.Content
		if i == first {
			text = strings.Repeat(imageMark, len(images)-marks) + text
		}
		left = m.show(strings.Split(text, imageMark), left)
	}
	return out, nil
}

// isText reports whether a message is of the user and has no images of its own.
func isText(m Message) bool { return m.Role == "user" && m.Parts == nil }

// show makes texts with an image between each two the content of a message. It returns the images that
// are left.
func (m *Message) show(texts, images []string) (left []string) {
	if len(texts) == 1 {
		return images
	}
	m.Content = strings.Join(texts, "")
	m.Extra = maps.Clone(m.Extra)
	delete(m.Extra, contentKey) // the form that was read has no images
	for i, text := range texts {
		if text != "" {
			m.Parts = append(m.Parts, Part{Text: text})
		}
		if i < len(texts)-1 {
			m.Parts = append(m.Parts, Part{Image: images[i]})
		}
	}
	return images[len(texts)-1:]
}

// markImages returns the fields of a message with a text in place of each part that is an image.
func markImages(fields map[string]any) map[string]any {
	parts, ok := fields[contentKey].([]any)
	if !ok {
		return fields
	}
	parts = slices.Clone(parts)
	for i, part := range parts {
		if p, _ := part.(map[string]any); p["type"] == "image" && p["image"] == nil {
			parts[i] = map[string]any{"type": "text", "text": imageMark}
		}
	}
	fields = maps.Clone(fields)
	fields[contentKey] = parts
	return fields
}
