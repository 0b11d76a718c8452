package cpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/engine/cpu/internal/sampler"
)

var _ engine.Publisher = (*Engine)(nil)

// Offer implements engine.Publisher. Weights are copied only when a later step changes them.
func (e *Engine) Offer(ctx context.Context, version int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(ctx); err != nil {
		return err
	}
	e.published, e.hasPublished, e.behind = version, true, false
	if !e.opts.KeepPublished {
		e.publishedWeights = nil // of a state whose run kept them: no step needs to copy into it
	}
	return nil
}

// Adopt implements engine.Publisher.
func (e *Engine) Adopt(ctx context.Context) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(ctx); err != nil {
		return 0, err
	}
	weights, err := e.ofPublished()
	if err != nil {
		return 0, err
	}
	return e.published, e.update(e.published, weights)
}

// ofPublished are the weights of the last version.
func (e *Engine) ofPublished() ([]float32, error) {
	switch {
	case !e.hasPublished:
		return nil, errors.New("cpu: no version was published")
	case !e.behind:
		return e.trained, nil
	case e.publishedWeights == nil:
		return nil, fmt.Errorf("cpu: the weights of version %d have been trained on: open the engine with Options.KeepPublished", e.published)
	}
	return e.publishedWeights, nil
}

func (e *Engine) update(version int64, trained []float32) error {
	if e.updater == nil {
		return nil
	}
	if err := e.handOver(version, trained); err != nil {
		return fmt.Errorf("cpu: publishing version %d: %w", version, err)
	}
	return nil
}

// handOver gives the adapter before the base, so that a sampler which cannot sample without weights
// never samples the base alone.
func (e *Engine) handOver(version int64, trained []float32) error {
	if e.adapters == nil {
		return e.updater.UpdateFrom(version, packed(e.base, trained))
	}
	if err := e.updater.UpdateAdapter(version, &e.adapters.LoRA, tensors(&e.adapters.layout, trained)); err != nil || e.hasBase {
		return err
	}
	if err := e.updater.UpdateFrom(version, packed(e.base, e.baseFlat)); err != nil {
		return err
	}
	e.hasBase = true
	return nil
}

// tensors reads a vector of weights by name.
func tensors(l *layout, weights []float32) func(name string) ([]float32, error) {
	return func(name string) ([]float32, error) { return l.tensor(weights, name) }
}

// packed reads a vector of weights by name, matrices as they are packed.
func packed(l *layout, weights []float32) sampler.Weights {
	return sampler.Weights{Tensor: tensors(l, weights), Packed: func(names ...string) *kernel.Packed {
		s, ok := l.find(names[0] + ".weight")
		if !ok || s.stack == nil {
			return nil
		}
		p := s.stack.of(weights)
		return &p
	}}
}

// SharesWeights reports whether the sampler reads the very weights that OptimStep changes. It then rests from there to the next Adopt.
func (p *publication) SharesWeights() bool { return p.inPlace }

// changes makes the sampler rest before the trained weights change, if it reads them.
func (p *publication) changes() {
	if p.inPlace {
		p.updater.Rest()
	}
}
