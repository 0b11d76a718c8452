package cpu

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile/safetensors"
)

// Files of a state directory.
const (
	stateName   = "state.json"
	tensorsName = "state.safetensors"
)

// stateFormat is the version of the layout of a state directory.
const stateFormat = 1

// state is everything of a run that is not a tensor.
type state struct {
	Format       int      `json:"format"`
	Steps        int64    `json:"optimizer_steps"`
	Published    int64    `json:"published_version"`
	HasPublished bool     `json:"has_published"`
	Behind       bool     `json:"published_weights_differ"` // the tensors published.* are the sampler's weights then
	Optimizer    string   `json:"optimizer"`                // what the other tensors are the state of; "" in states of before there was another than AdamW
	Kernels      string   `json:"kernels"`                  // set that computed; all sets give the same bits, so another may go on
	LoRA         *loraTag `json:"lora,omitempty"`
}

// loraTag is what two runs must agree on.
type loraTag struct {
	Rank    int      `json:"rank"`
	Scale   float32  `json:"scale"`
	Modules []string `json:"target_modules"`
	Exclude []string `json:"exclude_modules,omitempty"`
}

func (e *Engine) loraTag() *loraTag {
	if e.adapters == nil {
		return nil
	}
	return &loraTag{Rank: e.adapters.Rank, Scale: e.adapters.scale, Modules: e.adapters.TargetModules, Exclude: e.adapters.ExcludeModules}
}

func (e *Engine) trainedLayout() *layout {
	if e.adapters != nil {
		return &e.adapters.layout
	}
	return e.base
}

// tensors are those of a state.
func (e *Engine) tensors(behind bool) []stored {
	all := append([]stored{vector{"weights.", e.trainedLayout(), e.trained}}, e.optimizer.state()...)
	if behind {
		all = append(all, vector{"published.", e.trainedLayout(), e.publishedWeights})
	}
	return all
}

// SaveState writes master weights (or adapters), the optimizer's state, counters and, where they differ, the published weights to dir, which exists.
// A gradient is not part of a state: call it after OptimStep.
func (e *Engine) SaveState(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opts.ForwardOnly {
		return errForwardOnly
	}
	if e.accumulating {
		return fmt.Errorf("cpu: state asked for between ForwardBackward and OptimStep: a resumed run would lose the gradient")
	}
	behind := e.hasPublished && e.behind
	if behind && e.publishedWeights == nil {
		return fmt.Errorf("cpu: the sampler has version %d and the weights are newer, so a resumed run would not be exact: open the engine with Options.KeepPublished", e.published)
	}
	if err := e.usable(ctx); err != nil {
		return err
	}
	var entries []safetensors.Entry
	for _, part := range e.tensors(behind) {
		entries = append(entries, part.entries()...)
	}
	if err := safetensors.Write(filepath.Join(dir, tensorsName), entries, nil); err != nil {
		return fmt.Errorf("cpu: state: %w", err)
	}
	return writeJSON(filepath.Join(dir, stateName), state{
		Format: stateFormat, Steps: e.steps, Published: e.published, HasPublished: e.hasPublished, Behind: behind, Optimizer: e.optimizer.describe(), Kernels: kernel.Active(), LoRA: e.loraTag(),
	})
}

// LoadState reads what SaveState wrote and hands the published weights to the attached sampler. On error the engine must not be used.
func (e *Engine) LoadState(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opts.ForwardOnly {
		return errForwardOnly
	}
	if err := e.usable(ctx); err != nil {
		return err
	}
	s, err := e.readState(filepath.Join(dir, stateName))
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
		return fmt.Errorf("cpu: %s does not say what a sampler had, because it is of a run without one in its process: go on in mode train first, as it was made", dir)
	}
	if s.Behind {
		if err := e.keepsPublished(); err != nil {
			return err
		}
	}
	for _, part := range e.tensors(s.Behind) {
		if err := part.read(file); err != nil {
			return err
		}
	}
	e.clearFlat(e.gradient)
	e.steps, e.published, e.hasPublished, e.behind, e.accumulating = s.Steps, s.Published, s.HasPublished, s.Behind, false
	switch {
	case !s.HasPublished:
		return nil
	case s.Behind:
		return e.update(s.Published, e.publishedWeights)
	}
	return e.update(s.Published, e.trained)
}

func (e *Engine) readState(path string) (state, error) {
	var s state
	text, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("cpu: state: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("cpu: %s: %w", path, err)
	}
	if s.Format != stateFormat {
		return s, fmt.Errorf("cpu: %s has format %d; this version reads %d", path, s.Format, stateFormat)
	}
	if saved := cmp.Or(s.Optimizer, trinity.AdamW); saved != e.optimizer.describe() {
		return s, fmt.Errorf("cpu: %s is of a run with optimizer %s, this engine was opened with %s: take up the run with the optimizer that it began with", path, saved, e.optimizer.describe())
	}
	mine, theirs := e.loraTag(), s.LoRA
	if (mine == nil) != (theirs == nil) || mine != nil && (mine.Rank != theirs.Rank || mine.Scale != theirs.Scale || !slices.Equal(mine.Modules, theirs.Modules) || !slices.Equal(mine.Exclude, theirs.Exclude)) {
		return s, fmt.Errorf("cpu: %s is of a run with LoRA %s, this engine was opened with %s", path, describe(theirs), describe(mine))
	}
	return s, nil
}

func describe(l *loraTag) string {
	if l == nil {
		return "off"
	}
	return fmt.Sprintf("rank %d, scale %v, %v without %v", l.Rank, l.Scale, l.Modules, l.Exclude)
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

// readTensor fills dst from a file of tensors.
func readTensor(file *safetensors.File, name string, shape []int, dst []float32) error {
	t, ok := file.Tensor(name)
	if !ok || !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("cpu: %s: tensor %s has shape %v; expected %v", file.Path, name, t.Shape, shape)
	}
	if err := t.Range(dst, 0); err != nil {
		return fmt.Errorf("cpu: state: %w", err)
	}
	return nil
}

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
