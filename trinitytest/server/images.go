package server

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The lies of a server that reads images.
const (
	OtherImages Lie = "makes two tokens more of an image"
	NoPlaces    Lie = "does not tell where it has put images"
)

// Images say how a fake of vLLM reads images.
type Images struct {
	Token int32 // of a prompt, in place of which the tokens of an image come
	// Tokens returns how many tokens it makes of the file of an image.
	Tokens func(file []byte) (int, error)
}

// part is an entry of content_parts.
type part struct{ Type, URL, UUID string }

// place is where an image is in an expanded prompt.
type place struct {
	Offset int `json:"offset"`
	Length int `json:"length"`
}

// expand puts the tokens of images in place of one token each, in order, as vLLM does: it does not see that a prompt has
// all tokens of an image already, nor that it has more places than images. status is 0 if it succeeds.
func (f *Fake) expand(ids []int32, parts []part) (out []int32, places []place, status int, err error) {
	out = slices.Clone(ids)
	at := 0
	for i, p := range parts {
		data, ok := strings.CutPrefix(p.URL, "data:image/png;base64,")
		file, err := base64.StdEncoding.DecodeString(data)
		if !ok || err != nil || p.Type != "image_url" || p.UUID == "" {
			return nil, nil, http.StatusBadRequest, fmt.Errorf("this fake reads images in data: URLs with a uuid, got %s %.40s", p.Type, p.URL)
		}
		n, err := f.images.Tokens(file)
		if err != nil {
			return nil, nil, http.StatusBadRequest, err
		}
		if f.tells(OtherImages) {
			n += 2
		}
		next := slices.Index(out[at:], f.images.Token)
		if next < 0 {
			return nil, nil, http.StatusInternalServerError, fmt.Errorf("failed to apply prompt replacement for mm_items['image'][%d]", i)
		}
		at += next
		out = slices.Replace(out, at, at+1, slices.Repeat([]int32{f.images.Token}, n)...)
		places = append(places, place{at, n})
		at += n
	}
	return out, places, 0, nil
}
