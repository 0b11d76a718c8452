package settle

import (
	"fmt"
	"sync"

	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/model/vision"
)

// imageStore keeps the canonical images of a run.
type imageStore interface {
	Put(file []byte) (digest string, err error)
	Get(digest string) ([]byte, error)
}

// imagesOf returns how the chat template of the model at a path shows images, nil if the run has none.
func imagesOf(s *config.Settled, path string, kept imageStore) (*renderer.Images, error) {
	if !s.SeesImages() {
		return nil, nil
	}
	p, err := vision.Open(path)
	if err != nil {
		return nil, s.At(checkpoint.ModelKey, "the run shows the model images: "+err.Error(), "")
	}
	return renderer.ImagesOf(p, kept), nil
}

// forgotten keeps images in memory: of a plan, which writes nothing.
type forgotten struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (f *forgotten) Put(file []byte) (digest string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		f.files = map[string][]byte{}
	}
	digest = blobs.Digest(file)
	f.files[digest] = file
	return digest, nil
}

func (f *forgotten) Get(digest string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, ok := f.files[digest]
	if !ok {
		return nil, fmt.Errorf("the image %s is not known", digest)
	}
	return file, nil
}
