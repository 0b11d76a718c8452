// Package vision prepares images for models that read them.
//
// Programs that read an image with one model disagree: two processors of one library give other
// pixels for a photo, because they resize otherwise. They agree on an image that already has the
// size that the model wants. So this package resizes each image once, in integers, to that size.
// The result, the canonical image, is what the sampler and the trainer get.
package vision

import (
	"bytes"
	"fmt"
	"image/png"
	"strings"

	"github.com/trinity-go/trinity/internal/blobs"
)

// Processor prepares images for one model. [Open] makes it from the model's files.
type Processor struct {
	// Placeholder is the text that the chat template writes for an image. The text of the image takes
	// its place before the chat is tokenized.
	Placeholder string
	// Special are the texts of the tokens that only images have. In a message they stay text.
	Special []string
	// Features are the texts of the tokens whose place the features of images or videos take.
	Features []string

	filter filter
	fit    func(width, height int) (w, h int, err error) // the size that the model's own processor gives
	patch  int                                           // pixels of a side of a patch
	tokens func(rows, columns int) int                   // of an image with that many patches
	// The text of an image is before, token for each of its tokens, and after.
	before, token, after string
}

// Image is a canonical image.
type Image struct {
	PNG    []byte
	Digest string // of PNG, by which a run keeps it
	Grid   [3]int // frames, which are 1, and rows and columns of patches
	Tokens int    // places in the prompt that the model fills with the image's features
	Text   string // takes the place of Processor.Placeholder
}

// Canonical returns the canonical image of a PNG, JPEG, GIF or WebP file. That of a canonical
// image is itself.
func (p *Processor) Canonical(file []byte) (*Image, error) {
	img, err := decode(file)
	if err != nil {
		return nil, err
	}
	width, height, err := p.fit(img.Rect.Dx(), img.Rect.Dy())
	if err != nil {
		return nil, err
	}
	if w, h, err := p.fit(width, height); err != nil || w != width || h != height {
		return nil, fmt.Errorf("the image of %d×%d pixels becomes %d×%d, which the model's processor would resize again: use another one",
			img.Rect.Dx(), img.Rect.Dy(), width, height)
	}
	if width > maxPixels/height {
		return nil, fmt.Errorf("the model's processor wants %d×%d pixels, at most %d are made: lower the sizes in preprocessor_config.json",
			width, height, maxPixels)
	}
	if width > maxPixels/img.Rect.Dy() { // what a resize of the width alone makes
		return nil, fmt.Errorf("the image of %d×%d pixels is too narrow: at most %d are made on the way to %d×%d",
			img.Rect.Dx(), img.Rect.Dy(), maxPixels, width, height)
	}
	var out bytes.Buffer
	if err := png.Encode(&out, resize(img, width, height, p.filter)); err != nil {
		return nil, err
	}
	rows, columns := height/p.patch, width/p.patch
	tokens := p.tokens(rows, columns)
	return &Image{PNG: out.Bytes(), Digest: blobs.Digest(out.Bytes()), Grid: [3]int{1, rows, columns}, Tokens: tokens,
		Text: p.before + strings.Repeat(p.token, tokens) + p.after}, nil
}
