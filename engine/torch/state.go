package torch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
)

// version is the last version that the engine offered.
type version struct {
	Published    int64 `json:"published_version"`
	HasPublished bool  `json:"has_published"`
	behind       bool  // OptimStep has changed the weights since
}

// state is the file beside the tensors of a saved state.
type state struct {
	Engine    string   `json:"engine"` // torch
	Format    int      `json:"format"`
	Steps     int64    `json:"optimizer_steps"`
	Behind    bool     `json:"published_weights_differ"` // the state has the weights of the version
	Gradient  bool     `json:"gradient,omitempty"`       // the state has a gradient that no step has used
	Optimizer string   `json:"optimizer"`
	LoRA      *loraTag `json:"lora,omitempty"`
	version
}

const (
	stateName   = "state.json"
	stateFormat = 1
	engineName  = "torch"
)

// Offer implements engine.Publisher. The worker copies the weights only when a step changes them.
func (e *workerModel) Offer(ctx context.Context, number int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.do(ctx, "offer", message{}); err != nil {
		return err
	}
	e.version = version{Published: number, HasPublished: true}
	return nil
}

// Adopt implements engine.Publisher. No sampler shares the worker's memory.
func (e *workerModel) Adopt(context.Context) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return 0, errClosed
	case !e.HasPublished:
		return 0, errors.New("torch: no version was published")
	}
	return e.Published, nil
}

// SavePublished implements engine.Publisher.
func (e *workerModel) SavePublished(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.keepsPublished(); err != nil {
		return err
	}
	return e.save(ctx, "published", dir, e.spec.PublishDType)
}

// keepsPublished returns an error if the weights of the last version are gone.
func (e *workerModel) keepsPublished() error {
	switch {
	case !e.HasPublished:
		return errors.New("torch: no version was published")
	case e.behind && !e.spec.Ahead:
		return fmt.Errorf("torch: the weights of version %d have been trained on: open the engine with TrainerSpec.Ahead", e.Published)
	}
	return nil
}

// SaveModel implements engine.Trainer.
func (e *workerModel) SaveModel(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.save(ctx, "model", dir, "")
}

// SaveVersion implements engine.VersionWriter.
func (e *workerModel) SaveVersion(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.save(ctx, "model", dir, e.spec.PublishDType)
}

// save makes the worker write into dir, which it makes if it does not exist, in a number type; "" is float32.
func (e *workerModel) save(ctx context.Context, kind, dir, dtype string) error {
	path, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(path, 0o777)
	}
	if err != nil {
		return fmt.Errorf("torch: %w", err)
	}
	if err = e.files(ctx, "save", path, map[string]any{
		"kind": kind, "dtype": torchTypes[cmp.Or(dtype, f32)], "gradient": e.accumulating,
	}); err != nil {
		return err
	}
	return e.sync(path)
}

// files makes the worker read or write a directory, which an error names.
func (e *workerModel) files(ctx context.Context, verb, path string, meta map[string]any) error {
	meta["dir"] = path
	if _, err := e.do(ctx, verb, message{meta: meta}); err != nil {
		return fmt.Errorf("%w (directory %s)", err, path)
	}
	return nil
}

// sync brings the files that the worker wrote onto the disk.
func (e *workerModel) sync(dir string) error {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if f.Type().IsRegular() {
			err = errors.Join(err, durable.SyncPath(filepath.Join(dir, f.Name())))
		}
	}
	if err = errors.Join(err, durable.SyncPath(dir)); err != nil {
		return fmt.Errorf("torch: %w", err)
	}
	return nil
}

// SaveState implements engine.Trainer. Ranks that divide each matrix have a gradient whole only in a step, so with them
// SaveState is an error between ForwardBackward and OptimStep.
func (e *workerModel) SaveState(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	behind := e.HasPublished && e.behind
	switch {
	case !e.spec.Train:
		return errNotTrained
	case e.accumulating && tensorOf(e.spec) > 1:
		return errors.New("torch: SaveState between ForwardBackward and OptimStep: with tensor parallel ranks a state has no gradient: " +
			"call OptimStep or Discard before")
	case behind && !e.spec.Ahead:
		return fmt.Errorf("torch: the weights have changed since version %d, which the sampler has, so a resumed run would not be exact: "+
			"open the engine with TrainerSpec.Ahead", e.Published)
	}
	if err := e.save(ctx, "state", dir, ""); err != nil {
		return err
	}
	text, err := json.MarshalIndent(state{
		Engine: engineName, Format: stateFormat, Steps: e.steps, Behind: behind, Gradient: e.accumulating,
		Optimizer: e.optimizer(), LoRA: e.tag, version: e.version,
	}, "", "  ")
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, stateName), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("torch: state: %w", err)
	}
	return nil
}

// optimizer describes what decides which tensors are the optimizer's state.
func (e *workerModel) optimizer() string {
	if o := e.spec.Optimizer; optimizerOf(o) == engine.SGD && o.Momentum == 0 {
		return "sgd without momentum"
	}
	return optimizerOf(e.spec.Optimizer)
}

// LoadState implements engine.Trainer. The state may be of another number of ranks.
func (e *workerModel) LoadState(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.spec.Train {
		return errNotTrained
	}
	s, err := e.readState(dir)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("torch: %w", err)
	}
	if err := e.files(ctx, "load", path, map[string]any{"kind": "state", "published": s.Behind, "gradient": s.Gradient}); err != nil {
		return err
	}
	e.steps, e.version, e.accumulating = s.Steps, s.version, s.Gradient
	e.behind = s.Behind
	return nil
}

// readState reads the file of a state and checks that a run with these settings wrote it.
func (e *workerModel) readState(dir string) (s state, err error) {
	path := filepath.Join(dir, stateName)
	text, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("torch: state: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("torch: %s: %w", path, err)
	}
	switch {
	case s.Engine != engineName:
		return s, fmt.Errorf("torch: %s is of another engine, whose moments this engine does not read: "+
			"start a new run from the model of that checkpoint", path)
	case s.Format != stateFormat:
		return s, fmt.Errorf("torch: %s has format %d; this version reads %d", path, s.Format, stateFormat)
	case s.Optimizer != e.optimizer():
		return s, fmt.Errorf("torch: %s is of a run with optimizer %s; this engine has %s: resume the run with its own", path, s.Optimizer,
			e.optimizer())
	case !s.LoRA.equal(e.cfg, e.tag):
		return s, fmt.Errorf("torch: %s is of a run with another LoRA: resume the run with its own", path)
	}
	return s, nil
}
