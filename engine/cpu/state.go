package cpu

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/model"
)

// Files of a state directory.
const (
	stateName   = "state.json"
	tensorsName = "state.safetensors"
)

// The versions of a state directory's layout. Only a state with a gradient has the second one, so that a
// program which would lose the gradient refuses it.
const (
	stateFormat    = 1
	gradientFormat = 2
)

// state is everything in a saved state that is not a tensor.
type state struct {
	Engine       string    `json:"engine,omitempty"` // "" for this one
	Format       int       `json:"format"`
	Steps        int64     `json:"optimizer_steps"`
	Published    int64     `json:"published_version"`
	HasPublished bool      `json:"has_published"`
	Behind       bool      `json:"published_weights_differ"` // the tensors published.* are the sampler's weights
	Optimizer    string    `json:"optimizer"`                // whose state the other tensors are; "" means AdamW
	Kernels      string    `json:"kernels"`                  // kernel set of the run; a resumed run may use any, as all give the same bits
	LoRA         *loraTag  `json:"lora,omitempty"`
	Loads        [][]int64 `json:"expert_loads,omitempty"` // with a gradient: tokens by layer and expert, of the same passes
}

// hasGradient reports whether the tensors gradient.* are a gradient that no step has used.
func (s *state) hasGradient() bool { return s.Format == gradientFormat }

// loraTag is the part of a LoRA configuration that a run and its saved state must agree on.
type loraTag struct {
	Rank    int      `json:"rank"`
	Scale   float32  `json:"scale"`
	Modules []string `json:"target_modules"`
	Exclude []string `json:"exclude_modules,omitempty"`
	Experts []string `json:"target_parameters,omitempty"`
}

// tag returns the adapters' part of a saved state; nil without adapters.
func (l *adapterLayout) tag() *loraTag {
	if l == nil {
		return nil
	}
	return &loraTag{Rank: l.Rank, Scale: l.scale, Modules: l.TargetModules, Exclude: l.ExcludeModules, Experts: l.TargetParameters}
}

// stored returns the tensors of a state.
func (e *Engine) stored(behind, gradient bool) []stored {
	all := append([]stored{weightVector{weightsPrefix, e.trainedLayout(), e.trained}}, e.optimizer.state()...)
	if gradient {
		all = append(all, vector{"gradient.", e.trainedLayout(), e.gradient})
	}
	if behind {
		all = append(all, weightVector{"published.", e.trainedLayout(), e.publishedWeights})
	}
	return all
}

// SaveState writes the weights or adapters, the optimizer's state, the gradient since the last OptimStep,
// the counters and, if they differ, the published weights to dir, which must exist.
func (e *Engine) SaveState(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.trainable(ctx); err != nil {
		return err
	}
	behind := e.hasPublished && e.behind
	if behind && e.publishedWeights == nil {
		return fmt.Errorf("cpu: the weights have changed since version %d, which the sampler has, so a resumed run would not be exact: open the engine with Options.KeepPublished", e.published)
	}
	s := state{
		Format: stateFormat, Steps: e.steps, Published: e.published, HasPublished: e.hasPublished, Behind: behind,
		Optimizer: e.optimizer.describe(), Kernels: kernel.Active(), LoRA: e.adapters.tag(),
	}
	if e.accumulating {
		s.Format, s.Loads = gradientFormat, e.balance.loads()
	}
	var entries []safetensors.Entry
	for _, part := range e.stored(behind, e.accumulating) {
		entries = append(entries, part.entries()...)
	}
	if err := safetensors.Write(filepath.Join(dir, tensorsName), entries, nil); err != nil {
		return fmt.Errorf("cpu: state: %w", err)
	}
	return writeJSON(filepath.Join(dir, stateName), s)
}

// LoadState reads what SaveState wrote and hands the published weights to the attached sampler.
// After an error, the engine must not be used.
func (e *Engine) LoadState(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.trainable(ctx); err != nil {
		return err
	}
	s, err := readState(filepath.Join(dir, stateName), e.optimizer.describe(), e.cfg, e.adapters.tag())
	if err != nil {
		return err
	}
	path := filepath.Join(dir, tensorsName)
	file, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("cpu: state: %w", err)
	}
	defer file.Close()
	if !s.HasPublished && e.updater != nil {
		return fmt.Errorf("cpu: %s has no published version, because its run had no sampler in its process: resume it in mode train first", dir)
	}
	if s.Behind {
		if err := e.takePublished(); err != nil {
			return err
		}
	}
	e.clearGradient()
	e.changes()
	for _, part := range e.stored(s.Behind, s.hasGradient()) {
		if err := part.read(file); err != nil {
			return err
		}
	}
	if err := e.balance.setLoads(s.Loads); err != nil {
		return fmt.Errorf("cpu: %s: %w", filepath.Join(dir, stateName), err)
	}
	e.steps, e.published, e.hasPublished, e.behind, e.accumulating = s.Steps, s.Published, s.HasPublished, s.Behind, s.hasGradient()
	switch {
	case !s.HasPublished:
		return nil
	case s.Behind:
		return e.update(s.Published, e.publishedWeights)
	}
	return e.update(s.Published, e.trained)
}

// readState reads the file of a state and checks that it is of a run with this optimizer and LoRA.
func readState(path, optimizer string, cfg *model.Config, lora *loraTag) (state, error) {
	s, err := parseState(path)
	if err != nil {
		return s, err
	}
	if saved := cmp.Or(s.Optimizer, engine.AdamW); saved != optimizer {
		return s, fmt.Errorf("cpu: %s is of a run with optimizer %s; this engine has %s: resume the run with its own optimizer", path, saved, optimizer)
	}
	if !s.LoRA.equal(cfg, lora) {
		return s, fmt.Errorf("cpu: %s is of a run with LoRA %s; this engine has %s: resume the run with its own LoRA", path, s.LoRA, lora)
	}
	return s, nil
}

// parseState reads the file of a state of this engine.
func parseState(path string) (s state, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("cpu: state: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("cpu: %s: %w", path, err)
	}
	if s.Engine != "" {
		return s, fmt.Errorf("cpu: %s is of the engine %s, whose moments this engine does not read: "+
			"start a new run from the model of that checkpoint", path, s.Engine)
	}
	if s.Format != stateFormat && s.Format != gradientFormat {
		return s, fmt.Errorf("cpu: %s has format %d; this version reads %d and %d", path, s.Format, stateFormat, gradientFormat)
	}
	return s, nil
}

// equal reports whether two runs adapt the same modules of a model alike, or both none. The file of an
// adapter may name modules that its run called [model.AllLinear].
func (t *loraTag) equal(cfg *model.Config, other *loraTag) bool {
	if t == nil || other == nil {
		return t == other
	}
	lora := t.lora()
	own, err := lora.Tensors(cfg)
	lora = other.lora()
	its, err2 := lora.Tensors(cfg)
	return t.Rank == other.Rank && t.Scale == other.Scale && err == nil && err2 == nil && reflect.DeepEqual(own, its)
}

// String describes a LoRA in an error.
func (t *loraTag) String() string {
	if t == nil {
		return "off"
	}
	return fmt.Sprintf("rank %d, scale %v, %v without %v", t.Rank, t.Scale, slices.Concat(t.Modules, t.Experts), t.Exclude)
}

// entries implements stored.
func (v vector) entries() []safetensors.Entry {
	var out []safetensors.Entry
	for _, s := range v.layout.slots {
		out = append(out, safetensors.Float32s(v.prefix+s.name, s.shape, v.in(s.name)))
	}
	return out
}

// read implements stored.
func (v vector) read(file *safetensors.File) error {
	for _, s := range v.layout.slots {
		if err := readTensor(file, v.prefix+s.name, s.shape, v.in(s.name)); err != nil {
			return err
		}
	}
	return nil
}

// readTensor fills dst with a tensor of a file. It is an error if the tensor has another shape.
func readTensor(file *safetensors.File, name string, shape []int, dst []float32) error {
	return readParts(file, name, shape, func(t safetensors.Tensor) error { return t.Range(dst, 0) })
}

// readParts calls read with a tensor of a file. It is an error if the tensor has another shape.
func readParts(file *safetensors.File, name string, shape []int, read func(safetensors.Tensor) error) error {
	t, ok := file.Tensor(name)
	if !ok || !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("cpu: %s: tensor %s has shape %v; expected %v", file.Path, name, t.Shape, shape)
	}
	if err := read(t); err != nil {
		return fmt.Errorf("cpu: state: %w", err)
	}
	return nil
}

// writeJSON writes v to a file, indented.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = durable.WriteFile(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cpu: %s: %w", path, err)
	}
	return nil
}
