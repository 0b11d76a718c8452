package renderer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
)

// Images says how a model's prompts show images, and where their files are. [ImagesOf] makes it for a model.
type Images struct {
	Placeholder string   // what the chat template writes for an image
	Special     []string // added tokens that only images have, Placeholder among them. In a message they stay text.
	Features    []string // of Special, the tokens whose place the features of images or videos take
	// Of returns what takes the place of an image's placeholder, and the image's patches: frames, rows
	// and columns.
	Of func(digest string) (text string, grid [3]int, err error)
	// Take makes the canonical image of a file, keeps it and returns its digest. File returns it. nil: the images are
	// elsewhere.
	Take func(file []byte) (digest string, err error)
	File func(digest string) ([]byte, error)
}

var _ trinity.ImageRenderer = (*Renderer)(nil)

var errNoImages = errors.New("the model reads no images, or its processor is not known here (preprocessor_config.json beside its " +
	"weights): leave the images out")

// TakeImage implements [trinity.ImageRenderer].
func (r *Renderer) TakeImage(file []byte) (digest string, err error) {
	if r.images == nil || r.images.Take == nil {
		return "", errNoImages
	}
	return r.images.Take(file)
}

// ImageFile implements [trinity.ImageRenderer].
func (r *Renderer) ImageFile(digest string) ([]byte, error) {
	if r.images == nil || r.images.File == nil {
		return nil, errNoImages
	}
	return r.images.File(digest)
}

// PlaceImages implements [trinity.ImageRenderer].
func (r *Renderer) PlaceImages(tokens []int32, messages []trinity.Message) (images []trinity.Image, err error) {
	digests := digestsOf(messages)
	switch {
	case r.images == nil && len(digests) > 0:
		return nil, errNoImages
	case r.images == nil:
		return nil, nil
	}
	at := 0
	for _, digest := range digests {
		text, grid, err := r.images.shown(digest)
		if err != nil {
			return nil, err
		}
		own := r.tok.Encode(strings.TrimSpace(text), false)
		from := at
		for at < len(tokens) && tokens[at] != own[0] {
			at++
		}
		if err := r.images.without(r.tok, tokens[:at], from); err != nil {
			return nil, err
		}
		if end := at + len(own); end > len(tokens) || !slices.Equal(tokens[at:end], own) {
			return nil, fmt.Errorf("renderer: the tokens from %d on lack the image %s, of %d tokens", at, digest, len(own))
		}
		images = append(images, trinity.Image{Digest: digest, At: at, Len: len(own), Grid: grid})
		at += len(own)
	}
	return images, r.images.without(r.tok, tokens, at)
}

// without returns an error if tokens from a place on have one whose place the features of an image take.
func (v *Images) without(tok *tokenizer.Tokenizer, tokens []int32, from int) error {
	for _, text := range v.Features {
		id, ok := tok.TokenID(text)
		if i := slices.Index(tokens[from:], id); ok && i >= 0 {
			return fmt.Errorf("renderer: token %d is %s, and there is no image", from+i, text)
		}
	}
	return nil
}

// shown returns what takes the place of the placeholder of an image, and the image's patches.
func (v *Images) shown(digest string) (text string, grid [3]int, err error) {
	if text, grid, err = v.Of(digest); err != nil {
		err = fmt.Errorf("renderer: the image %s: %w", digest, err)
	}
	return text, grid, err
}

func digestsOf(messages []trinity.Message) (digests []string) {
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Image != "" {
				digests = append(digests, p.Image)
			}
		}
	}
	return digests
}
