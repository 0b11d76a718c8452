package gateway

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/wire/anthropic"
)

// say adds a text to a message.
func say(m *trinity.Message, text string) {
	if m.Content += text; m.Parts != nil {
		m.Parts = append(m.Parts, trinity.Part{Text: text})
	}
}

// show adds an image to a message.
func show(m *trinity.Message, digest string) {
	if m.Parts == nil && m.Content != "" {
		m.Parts = []trinity.Part{{Text: m.Content}}
	}
	m.Parts = append(m.Parts, trinity.Part{Image: digest})
}

// showBlock adds the image of a block to a message.
func (d *dialects) showBlock(m *trinity.Message, b *anthropic.Block) error {
	s := b.Source
	if s == nil || s.Type != "base64" {
		kind := ""
		if s != nil {
			kind = s.Type
		}
		return openai.Bad("messages", "an image whose source is of type %.20q: a rollout must not depend on the network, so send the image "+
			"itself, with the type base64", kind)
	}
	digest, err := openai.TakeImage(d.api.Renderer, s.Data)
	if err != nil {
		return openai.Bad("messages", "%v", err)
	}
	show(m, digest)
	return nil
}
