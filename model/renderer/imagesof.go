package renderer

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"image/png"
	"sync"

	"github.com/trinity-go/trinity/model/vision"
)

// ImageStore keeps the canonical images of a run by their digests.
type ImageStore interface {
	Put(file []byte) (digest string, err error)
	Get(digest string) (file []byte, err error)
}

// ImagesOf returns how a model with a processor shows images, whose files are in a store.
func ImagesOf(p *vision.Processor, store ImageStore) *Images {
	a := &album{processor: p, store: store}
	return &Images{Placeholder: p.Placeholder, Special: p.Special, Features: p.Features, Of: a.of, Take: a.take, File: store.Get}
}

// album remembers what a processor has said of the newest images: each rollout of a group shows the same one, and each
// turn of an agent's chat brings all images again.
type album struct {
	processor *vision.Processor
	store     ImageStore

	mu    sync.Mutex
	taken map[[sha256.Size]byte]string // digests of canonical images by the hash of what they were made of
	known map[string]shownImage        // by digest
}

type shownImage struct {
	text string
	grid [3]int
}

// mostKnown bounds each map of an album.
const mostKnown = 1000

// take makes the canonical image of a file and puts it into the store.
func (a *album) take(file []byte) (digest string, err error) {
	source := sha256.Sum256(file)
	a.mu.Lock()
	digest = a.taken[source]
	a.mu.Unlock()
	if digest != "" {
		return digest, nil
	}
	made, err := a.processor.Canonical(file)
	if err != nil {
		return "", err
	}
	if digest, err = a.store.Put(made.PNG); err != nil {
		return "", err
	}
	a.know(digest, made)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.taken) >= mostKnown || a.taken == nil {
		a.taken = map[[sha256.Size]byte]string{}
	}
	a.taken[source] = digest
	return digest, nil
}

// know remembers how an image is shown.
func (a *album) know(digest string, made *vision.Image) shownImage {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= mostKnown || a.known == nil {
		a.known = map[string]shownImage{}
	}
	shown := shownImage{made.Text, made.Grid}
	a.known[digest] = shown
	return shown
}

// of implements Images.Of.
func (a *album) of(digest string) (text string, grid [3]int, err error) {
	a.mu.Lock()
	shown, ok := a.known[digest]
	a.mu.Unlock()
	if ok {
		return shown.text, shown.grid, nil
	}
	file, err := a.store.Get(digest)
	if err != nil {
		return "", grid, err
	}
	made, err := a.processor.Canonical(file)
	if err != nil {
		return "", grid, err
	}
	is, err := png.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return "", grid, err
	}
	wants, err := png.DecodeConfig(bytes.NewReader(made.PNG))
	if err != nil || wants.Width != is.Width || wants.Height != is.Height {
		return "", grid, fmt.Errorf("it has %d×%d pixels, and the model's processor wants %d×%d: it was made for another model",
			is.Width, is.Height, wants.Width, wants.Height)
	}
	shown = a.know(digest, made)
	return shown.text, shown.grid, nil
}
