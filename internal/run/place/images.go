package place

import (
	"fmt"
	"sync"

	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/model/vision"
)

// Images returns how the chat template of the model at a path shows images, nil if the run has none. The
// run keeps them in its directory; a plan, which writes nothing, in memory.
func Images(s *config.Settled, path string, runs bool) (*renderer.Images, error) {
	if !s.SeesImages() {
		return nil, nil
	}
	p, err := vision.Open(path)
	if err != nil {
		return nil, s.At(checkpoint.ModelKey, fmt.Sprintf("the run shows the model images: %v", err), "")
	}
	if runs {
		return renderer.ImagesOf(p, blobs.In(s.CheckpointJobDir)), nil
	}
	return renderer.ImagesOf(p, &memory{}), nil
}

// ImageFiles gives a model that trains or teaches the images of experiences, nil if the run has none.
func ImageFiles(s *config.Settled) func(digest string) ([]byte, error) {
	if s.SeesImages() || s.Mode == "train" { // experiences from elsewhere may have images
		return blobs.In(s.CheckpointJobDir).Get
	}
	return nil
}

// memory keeps images in memory.
type memory struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (m *memory) Put(file []byte) (digest string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		m.files = map[string][]byte{}
	}
	digest = blobs.Digest(file)
	m.files[digest] = file
	return digest, nil
}

func (m *memory) Get(digest string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	file, ok := m.files[digest]
	if !ok {
		return nil, fmt.Errorf("the image %s is not known", digest)
	}
	return file, nil
}
