package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
)

// TakeImageURL keeps the image that a URL holds, and returns its digest. An image at another place is refused: a rollout
// must not depend on the network.
func TakeImageURL(r trinity.Renderer, url string) (digest string, err error) {
	form, data, ok := strings.Cut(url, ",")
	form, isData := strings.CutPrefix(strings.ToLower(form), "data:")
	switch scheme, _, found := strings.Cut(url, ":"); {
	case isData && (!ok || !strings.HasSuffix(form, ";base64")):
		return "", fmt.Errorf("the data: URL of an image is not in base64")
	case !isData && found:
		return "", fmt.Errorf("an image at a URL that begins with %.20q: a rollout must not depend on the network or on files of this "+
			"machine, so send the image itself in a data: URL", scheme+":")
	case !isData:
		return "", fmt.Errorf("an image at %.20q: want a data: URL", url)
	}
	return TakeImage(r, data)
}

// TakeImage keeps an image in base64, and returns its digest.
func TakeImage(r trinity.Renderer, data string) (digest string, err error) {
	file, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return "", fmt.Errorf("the bytes of an image are no base64: %w", err)
	}
	seeing, ok := r.(trinity.ImageRenderer)
	if !ok {
		return "", fmt.Errorf("the model reads no images: leave the image out")
	}
	return seeing.TakeImage(file)
}

// TakeImages returns a chat in JSON whose images are kept: each part of type image_url becomes one that names the image by
// its digest.
func TakeImages(r trinity.Renderer, messages json.RawMessage) (json.RawMessage, error) {
	var chat []map[string]json.RawMessage
	if !bytes.Contains(messages, []byte("image_url")) || json.Unmarshal(messages, &chat) != nil {
		return messages, nil
	}
	for i, m := range chat {
		var parts []json.RawMessage
		if json.Unmarshal(m["content"], &parts) != nil {
			continue
		}
		for j, part := range parts {
			var p struct {
				Type  string
				Image json.RawMessage `json:"image_url"`
			}
			if json.Unmarshal(part, &p) != nil || p.Type != "image_url" {
				continue
			}
			var at struct{ URL string }
			if json.Unmarshal(p.Image, &at) != nil && json.Unmarshal(p.Image, &at.URL) != nil {
				return nil, Bad("messages", "messages[%d].content[%d].image_url is no object with a url", i, j)
			}
			digest, err := TakeImageURL(r, at.URL)
			if err != nil {
				return nil, Bad("messages", "messages[%d].content[%d]: %v", i, j, err)
			}
			parts[j], _ = json.Marshal(map[string]string{"type": "image", "image": digest}) // texts have a form
		}
		m["content"], _ = json.Marshal(parts) // what was read from JSON
	}
	return json.Marshal(chat)
}

// takeImages returns a request whose images are kept.
func (s *Server) takeImages(data []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if !bytes.Contains(data, []byte("image_url")) || json.Unmarshal(data, &fields) != nil {
		return data, nil
	}
	var err error
	if fields["messages"], err = TakeImages(s.Renderer, fields["messages"]); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
