package trace

import (
	"encoding/json"

	"github.com/trinity-go/trinity"
)

// imagesOf returns the images of an experience as JSON; "" if it has none.
func imagesOf(images []trinity.Image) JSON {
	if len(images) == 0 {
		return ""
	}
	text, err := json.Marshal(images)
	if err != nil { // texts and numbers always have a JSON
		return ""
	}
	return JSON(text)
}

// Shown returns the images of an answer, in the order of their tokens; none if the file does not give
// each of them a place of its own.
func (a *Answer) Shown() []trinity.Image {
	e := trinity.Experience{Tokens: a.Tokens, Mask: a.Mask}
	if json.Unmarshal([]byte(a.Images), &e.Images) != nil || e.Check() != nil {
		return nil
	}
	return e.Images
}

// Show makes images of their tokens: the first one stands for the others in a chat.
func (s *Spelled) Show(images []trinity.Image) *Spelled {
	s.images = images
	return s
}

// IsBehind reports whether a token belongs to an image and is not its first one.
func (s *Spelled) IsBehind(t int) bool {
	for _, image := range s.images {
		if t > image.At && t < image.At+image.Len {
			return true
		}
	}
	return false
}
