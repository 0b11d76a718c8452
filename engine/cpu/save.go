package cpu

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity/modelfile"
)

// SaveModel writes the current weights as a Hugging Face directory, or the adapters as a PEFT directory. Tokenizer files are the
// caller's: see modelfile.CopyTokenizer.
func (e *Engine) SaveModel(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.saveModel(ctx, dir, e.trained)
}

// SavePublished implements trinity.PublishedSaver.
func (e *Engine) SavePublished(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	weights, err := e.ofPublished()
	if err != nil {
		return err
	}
	return e.saveModel(ctx, dir, weights)
}

func (e *Engine) saveModel(ctx context.Context, dir string, weights []float32) error {
	if err := e.usable(ctx); err != nil {
		return err
	}
	source := flatSource{e.trainedLayout(), weights}
	if e.adapters != nil {
		return modelfile.WriteAdapter(dir, e.cfg, &e.adapters.LoRA, source)
	}
	return modelfile.WriteDir(dir, e.cfg, source, "f32")
}

// flatSource offers what is trained, or was, to writers of model files.
type flatSource struct {
	layout *layout
	flat   []float32
}

func (s flatSource) Names() []string {
	var names []string
	for _, slot := range s.layout.slots {
		names = append(names, slot.name)
	}
	return names
}

func (s flatSource) Tensor(name string) (modelfile.Tensor, error) {
	at, ok := s.layout.find(name)
	if !ok {
		return modelfile.Tensor{}, fmt.Errorf("cpu: nothing that is trained is called %s", name)
	}
	width := at.size() / at.shape[0]
	return modelfile.NewTensor(name, at.shape, func(dst []float32, from, to int) error {
		copy(dst, s.flat[at.from+from*width:at.from+to*width])
		return nil
	}), nil
}
