package trinity

import (
	"errors"
	"fmt"
	"slices"
)

// ImageRenderer is a [Renderer] of a model that sees images. Render, Bridge and the like render the images of messages
// too. If the model sees none, its methods return an error that says so.
type ImageRenderer interface {
	Renderer
	// TakeImage makes the canonical image of a PNG, JPEG, GIF or WebP file, keeps it, and returns its digest for a [Part].
	TakeImage(file []byte) (digest string, err error)
	// ImageFile returns the canonical image with a digest, a PNG file.
	ImageFile(digest string) ([]byte, error)
	// PlaceImages returns the images of messages with their places in tokens, which the renderer has made of them. It
	// is an error if other tokens than theirs are those of images, as a policy may sample them.
	PlaceImages(tokens []int32, messages []Message) ([]Image, error)
}

// PromptOf returns tokens, which a renderer has made of messages, as a prompt with its images.
func PromptOf(r Renderer, tokens []int32, messages []Message) (p Prompt, err error) {
	p.Tokens = tokens
	images, err := imagesIn(r, tokens, messages)
	if err == nil {
		p.Images, err = filesOf(r, images)
	}
	return p, err
}

// imagesIn returns the images of messages with their places in tokens that a renderer has made of them.
func imagesIn(r Renderer, tokens []int32, messages []Message) ([]Image, error) {
	if !slices.ContainsFunc(messages, func(m Message) bool { return m.Parts != nil }) {
		return nil, nil
	}
	seeing, ok := r.(ImageRenderer)
	if !ok {
		return nil, errors.New("the chat has images, and this renderer shows none")
	}
	return seeing.PlaceImages(tokens, messages)
}

// filesOf returns images with their files, for a sampler.
func filesOf(r Renderer, images []Image) (all []PromptImage, err error) {
	for _, image := range images {
		seeing, ok := r.(ImageRenderer)
		if !ok {
			return nil, errors.New("the prompt has images, and this renderer shows none")
		}
		file, err := seeing.ImageFile(image.Digest)
		if err != nil {
			return nil, err
		}
		all = append(all, PromptImage{image, file})
	}
	return all, nil
}

// checkReply returns an error for a reply to a prompt with images that has a token which only images have: no trainer
// could tell it from an image.
func checkReply(r Renderer, reply []int32) error {
	if seeing, ok := r.(ImageRenderer); ok {
		if _, err := seeing.PlaceImages(reply, nil); err != nil {
			return fmt.Errorf("the reply looks like an image: %w", err)
		}
	}
	return nil
}

// moved returns images in a sequence that begins n tokens earlier.
func moved(images []Image, n int) []Image {
	images = slices.Clone(images)
	for i := range images {
		images[i].At += n
	}
	return images
}
