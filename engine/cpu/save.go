package cpu

import (
	"cmp"
	"context"
	"fmt"

	"github.com/trinity-go/trinity/model"
)

// SaveModel writes the current weights as a Hugging Face directory, or the adapters as a PEFT
// directory. The caller adds the tokenizer's files: see tokenizer.Tokenizer.WriteFiles.
func (e *Engine) SaveModel(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.saveModel(ctx, dir, e.trained, "f32")
}

// SaveVersion implements engine.VersionWriter.
func (e *Engine) SaveVersion(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.saveModel(ctx, dir, e.trained, cmp.Or(e.opts.PublishDType, "f32"))
}

// SavePublished implements engine.Publisher.
func (e *Engine) SavePublished(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	weights, err := e.ofPublished()
	if err != nil {
		return err
	}
	return e.saveModel(ctx, dir, weights, cmp.Or(e.opts.PublishDType, "f32"))
}

// saveModel writes weights, which hold everything that is trained. dtype is that of a model, not of adapters.
func (e *Engine) saveModel(ctx context.Context, dir string, weights []float32, dtype string) error {
	if err := e.usable(ctx); err != nil {
		return err
	}
	source := flatSource{e.trainedLayout(), weights}
	if e.adapters != nil {
		return model.WriteAdapter(dir, e.cfg, &e.adapters.LoRA, source)
	}
	return model.WriteDir(dir, e.cfg, source, dtype)
}

// flatSource gives writers of model files the tensors of a vector of weights.
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

func (s flatSource) Tensor(name string) (model.Tensor, error) {
	at, ok := s.layout.find(name)
	if !ok {
		return model.Tensor{}, fmt.Errorf("cpu: no trained tensor is called %s", name)
	}
	width := at.size() / at.shape[0]
	return model.NewTensor(name, at.shape, func(dst []float32, from, to int) error {
		span{&at, from * width, (to - from) * width}.read(dst, s.flat)
		return nil
	}), nil
}
