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
	if err := e.usable(ctx); err != nil {
		return err
	}
	if e.adapters != nil {
		return modelfile.WriteAdapter(dir, e.cfg, &e.adapters.LoRA, trainedSource{e})
	}
	return modelfile.WriteDir(dir, e.cfg, trainedSource{e}, "f32")
}

// trainedSource offers what is trained to writers of model files.
type trainedSource struct{ e *Engine }

func (s trainedSource) Names() []string {
	var names []string
	for _, slot := range s.e.trainedLayout().slots {
		names = append(names, slot.name)
	}
	return names
}

func (s trainedSource) Tensor(name string) (modelfile.Tensor, error) {
	at, ok := s.e.trainedLayout().find(name)
	if !ok {
		return modelfile.Tensor{}, fmt.Errorf("cpu: nothing that is trained is called %s", name)
	}
	width := at.size() / at.shape[0]
	return modelfile.NewTensor(name, at.shape, func(dst []float32, from, to int) error {
		copy(dst, s.e.trained[at.from+from*width:at.from+to*width])
		return nil
	}), nil
}
