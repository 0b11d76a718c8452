package trinitytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// descent holds the weights of the smallest engines: a number per token of the vocabulary, which
// plain gradient descent changes. The optimizer has no other state.
type descent struct {
	Weights []float64 // [V], the trained numbers
	grad    []float64 // [V]
	closed  bool
}

func newDescent(v int) descent {
	return descent{Weights: make([]float64, v), grad: make([]float64, v)}
}

var errClosed = errors.New("the engine is closed")

// usable returns errClosed after Close.
func (d *descent) usable() error {
	if d.closed {
		return errClosed
	}
	return nil
}

// check returns an error for a batch that the engine cannot compute.
func (d *descent) check(b *trinity.Batch) error {
	for _, e := range b.Experiences {
		if err := engine.CheckText(e); err != nil {
			return err
		}
		for t, token := range slices.Concat(e.Tokens, e.Targets) {
			if token < 0 || int(token) >= len(d.Weights) {
				return fmt.Errorf("experience %s: token %d at position %d is outside the vocabulary of %d", e.ID, token, t, len(d.Weights))
			}
		}
	}
	return d.usable()
}

// OptimStep implements engine.Trainer as plain gradient descent.
func (d *descent) OptimStep(_ context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	norm := 0.0
	for v, g := range d.grad {
		norm += g * g
		d.Weights[v] -= p.LR * g
		d.grad[v] = 0
	}
	return trinity.Metrics{"grad_norm": math.Sqrt(norm), "lr": p.LR}, d.usable()
}

// Discard implements engine.Discarder.
func (d *descent) Discard(context.Context) error {
	clear(d.grad)
	return d.usable()
}

// save writes a state into dir.
func (d *descent) save(dir string, state any) error {
	data, err := json.Marshal(state)
	if err = errors.Join(err, d.usable(), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "weights.json"), data, 0o644)
}

// load reads a state that save wrote.
func (d *descent) load(dir string, state any) error {
	data, err := os.ReadFile(filepath.Join(dir, "weights.json"))
	if err = errors.Join(err, d.usable()); err != nil {
		return err
	}
	return json.Unmarshal(data, state)
}

// Close implements engine.Trainer.
func (d *descent) Close() error {
	d.closed = true
	return nil
}
