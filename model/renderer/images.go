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

// Images says how a model's prompts show images. Package vision knows it of a model.
type Images struct {
	Placeholder string   // what the chat template writes for an image
	Special     []string // added tokens that only images have, Placeholder among them. In a message they stay text.
	// Of returns what takes the place of an image's placeholder, and the image's patches: frames, rows
	// and columns.
	Of func(digest string) (text string, grid [3]int, err error)
}

// RenderImages is [Renderer.Render] for a model that sees images. images have the places of the messages' images
// in the tokens. What looks like an image in a message's text is text.
func RenderImages(r *Renderer, messages []trinity.Message, tools json.RawMessage, generate bool) (
	tokens []int32, images []trinity.Image, err error,
) {
	if r.images == nil {
		return nil, nil, errors.New("renderer: the model sees no images")
	}
	mark, err := unusedMark(messages, tools)
	if err != nil {
		return nil, nil, err
	}
	var digests []string
	plain := make([]trinity.Message, len(messages))
	for i, m := range messages {
		own := digestsOf(m)
		if plain[i], err = r.imageless(m, mark); err != nil {
			return nil, nil, fmt.Errorf("renderer: messages[%d]: %w", i, err)
		}
		digests = append(digests, own...)
	}
	text, err := r.text(plain, tools, generate)
	if err != nil {
		return nil, nil, err
	}
	return r.encodeImages(text, mark, digests)
}

func digestsOf(m trinity.Message) (digests []string) {
	for _, p := range m.Parts {
		if p.Image != "" {
			digests = append(digests, p.Image)
		}
	}
	return digests
}

// imageless returns a message whose images are parts in the form that templates read. A mark splits what
// looks like an image in its texts.
func (r *Renderer) imageless(m trinity.Message, mark string) (trinity.Message, error) {
	parts, err := m.ContentParts()
	if err != nil {
		return m, err
	}
	for _, text := range []*string{&m.Content, &m.Reasoning} {
		*text = r.split(*text, mark)
	}
	if m.Parts == nil {
		return m, nil
	}
	form, known := r.forms.parts[m.Role]
	if !known {
		form = r.forms.parts["user"]
	}
	if form == contentText {
		return m, fmt.Errorf("the chat template shows no images of the %s: it reads a text in place of parts", m.Role)
	}
	m.Parts, m.Content = slices.Clone(parts), ""
	for i := range m.Parts {
		m.Parts[i].Text = r.split(parts[i].Text, mark)
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
	m.Parts, m.Extra = nil, maps.Clone(m.Extra)
	if m.Extra == nil {
		m.Extra = map[string]json.RawMessage{}
	}
	m.Extra["content"] = read.Content
	return m, nil
}

// split puts a mark into each token of images in a text, so that the tokenizer does not see it.
func (r *Renderer) split(text, mark string) string {
	for _, token := range r.images.Special {
		text = strings.ReplaceAll(text, token, token[:1]+mark+token[1:])
	}
	return text
}

// unusedMark returns a character that no message has. Unicode reserves these for the use inside of
// programs.
func unusedMark(messages []trinity.Message, tools json.RawMessage) (string, error) {
	all := slices.Clone([]byte(tools))
	for _, m := range messages {
		all = append(append(append(all, m.Content...), m.Reasoning...), m.ToolCalls...)
		for _, value := range m.Extra {
			all = append(all, value...)
		}
	}
	for c := '\uFDD0'; c <= '\uFDEF'; c++ {
		if !bytes.ContainsRune(all, c) {
			return string(c), nil
		}
	}
	return "", errors.New("renderer: the messages have all characters that Unicode reserves for programs")
}

// encodeImages returns the tokens of a rendered chat, with the images in place of their placeholders, and
// with text in place of what a mark has split.
func (r *Renderer) encodeImages(text, mark string, digests []string) (tokens []int32, images []trinity.Image, err error) {
	pieces := strings.Split(text, r.images.Placeholder)
	if len(pieces)-1 != len(digests) {
		return nil, nil, fmt.Errorf("renderer: the chat template writes %s %d times for %d images",
			r.images.Placeholder, len(pieces)-1, len(digests))
	}
	var out strings.Builder
	var spans []span
	var words [][2]int // that stay text
	for i, piece := range pieces {
		for j, part := range strings.Split(piece, mark) {
			if j > 0 {
				words = append(words, [2]int{out.Len() - 1, out.Len() + 1})
			}
			out.WriteString(part)
		}
		if i == len(digests) {
			break
		}
		shown, grid, err := r.images.Of(digests[i])
		if err != nil {
			return nil, nil, fmt.Errorf("renderer: the image %s: %w", digests[i], err)
		}
		begin := out.Len() + strings.Index(shown, strings.TrimSpace(shown)) // space around it may join that of the chat
		spans = append(spans, span{begin, begin + len(strings.TrimSpace(shown))})
		images = append(images, trinity.Image{Digest: digests[i], Grid: grid})
		out.WriteString(shown)
	}
	tokens = r.tok.EncodeExcept(out.String(), words)
	places, err := place(r.tok, out.String(), tokens, spans)
	if err != nil {
		return nil, nil, err
	}
	for i, p := range places {
		images[i].At, images[i].Len = p.begin, p.end-p.begin
	}
	return tokens, images, nil
}
