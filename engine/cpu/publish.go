package cpu

import (
	"context"
	"fmt"
)

// Publish hands the current weights, under LoRA the adapters alone once the base is there, to the attached sampler.
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
	if err := e.handOver(version, trained); err != nil {
		return fmt.Errorf("cpu: publishing version %d: %w", version, err)
	}
	return nil
}

// handOver gives the adapter before the base, so that a sampler which cannot sample without weights never samples the base alone.
func (e *Engine) handOver(version int64, trained []float32) error {
	if e.adapters == nil {
		return e.updater.Update(version, tensors(e.base, trained))
	}
	if err := e.updater.UpdateAdapter(version, &e.adapters.LoRA, tensors(&e.adapters.layout, trained)); err != nil || e.hasBase {
		return err
	}
	if err := e.updater.Update(version, tensors(e.base, e.baseFlat)); err != nil {
		return err
	}
	e.hasBase = true
	return nil
}

// tensors reads a flat vector by name.
func tensors(l *layout, flat []float32) func(name string) ([]float32, error) {
	return func(name string) ([]float32, error) {
		if !l.has(name) {
			return nil, fmt.Errorf("cpu: the model has no tensor %s", name)
		}
		return l.in(flat, name), nil
	}
}
