package cpu

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// Publish hands the current weights, merged with the adapters, to the attached sampler.
func (e *Engine) Publish(ctx context.Context, version int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(ctx); err != nil {
		return err
	}
	if err := e.update(version, e.trained); err != nil {
		return err
	}
	e.published, e.hasPublished, e.behind = version, true, false
	return nil
}

func (e *Engine) update(version int64, trained []float32) error {
	if e.updater == nil {
		return nil
	}
	if err := e.updater.Update(version, func(name string) ([]float32, error) { return e.merged(trained, name) }); err != nil {
		return fmt.Errorf("cpu: publishing version %d: %w", version, err)
	}
	return nil
}

// merged is a tensor of the model that trained weights make, valid until the next call.
func (e *Engine) merged(trained []float32, name string) ([]float32, error) {
	s, ok := e.base.find(name)
	if !ok {
		return nil, fmt.Errorf("cpu: the model has no tensor %s", name)
	}
	if e.adapters == nil {
		return e.base.in(trained, name), nil
	}
	if e.adapters.has(name) { // a value head
		return e.adapters.in(trained, name), nil
	}
	weight := e.base.in(e.baseFlat, name)
	if !e.adapters.adapts(name) {
		return weight, nil
	}
	e.mergeScratch = slices.Grow(e.mergeScratch[:0], s.size())[:s.size()]
	e.copyFlat(e.mergeScratch, weight)
	e.adapters.addTo(e.pool, kernel.NewMatrix(e.mergeScratch, s.shape[0], s.shape[1]), trained, strings.TrimSuffix(name, ".weight"))
	return e.mergeScratch, nil
}
