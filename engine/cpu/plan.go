package cpu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/engine/cpu/internal/sampler"
	"github.com/trinity-go/trinity/model"
)

// PlanMemory implements engine.TrainerOpener.
func (trainerPlugin) PlanMemory(spec engine.TrainerSpec) ([]engine.MemoryPart, error) {
	cfg, err := readConfig(spec.ModelPath)
	if err != nil {
		return nil, err
	}
	opts, err := engineOptions(spec)
	if err != nil {
		return nil, err
	}
	opts.Pool = kernel.NewPool(0) // for its number of cores
	defer opts.Pool.Close()
	parts, err := Plan(cfg, opts)
	if err != nil {
		return nil, err
	}
	return withLoading(parts, fileBytes(spec.ModelPath)), nil
}

// PlanBase implements engine.BaseSharer.
func (trainerPlugin) PlanBase(spec engine.TrainerSpec) ([]engine.MemoryPart, error) {
	cfg, err := readConfig(spec.ModelPath)
	if err != nil {
		return nil, err
	}
	opts, err := baseOptions(spec)
	if err != nil {
		return nil, err
	}
	b, err := planShared(cfg, opts)
	if err != nil {
		return nil, err
	}
	return withLoading(b.memory.parts, fileBytes(spec.ModelPath)), nil
}

// withLoading adds, behind the weights, the pages of the mapped file: they count as memory until it
// is closed, and everything but the trained and the frozen weights is taken later.
func withLoading(parts []engine.MemoryPart, bytes int64) []engine.MemoryPart {
	n := 0
	for n < len(parts) && (parts[n].Kind == trainedWeights || parts[n].Kind == frozenWeights) {
		n++
	}
	return slices.Insert(parts, n, engine.MemoryPart{Kind: "loading", Bytes: bytes, Why: "pages of the model's file, which is mapped", Passing: true})
}

// PlanMemory implements engine.SamplerOpener.
func (samplerPlugin) PlanMemory(spec engine.SamplerSpec) ([]engine.MemoryPart, error) {
	cfg, err := readConfig(spec.ModelPath)
	if err != nil {
		return nil, err
	}
	if err := checkHead(cfg, Options{ModelPath: spec.ModelPath}); err != nil {
		return nil, err
	}
	pool := kernel.NewPool(0) // only its number of cores matters
	defer pool.Close()
	opts, err := samplerOptions(cfg, spec, pool)
	if err != nil {
		return nil, err
	}
	parts, err := sampler.Plan(*cfg, opts)
	if err != nil {
		return nil, err
	}
	if spec.LoRA != nil {
		n, err := adapterFloats(cfg, spec.LoRA)
		if err != nil {
			return nil, err
		}
		parts = append(parts, engine.MemoryPart{Kind: "sampler's adapter", Bytes: 3 * 4 * n, Why: "packed, and the next version while it is published; estimate"})
	}
	for _, path := range spec.Adapters {
		n, err := adapterFloats(cfg, &engine.LoRASpec{Path: path})
		if err != nil {
			return nil, err
		}
		parts = append(parts, engine.MemoryPart{Kind: "sampled adapter", Bytes: 2 * 4 * n, Why: path + ", packed, and its tensors while the sampler reads them; estimate"})
	}
	if spec.Shared {
		return parts, nil
	}
	reading := fileBytes(spec.ModelPath) // while the cache and activations of an earlier version are still there
	if spec.LoRA == nil {                // checkpoints that are read later are float32
		reading = max(reading, 4*cfg.Parameters())
	}
	reading += 4 * int64(largestTensor(cfg))
	return append(parts, engine.MemoryPart{Kind: "loading", Bytes: reading, Why: "pages of the model's file, which is mapped, and one tensor", Passing: true}), nil
}

// adapterFloats returns the number of weights of an adapter.
func adapterFloats(cfg *model.Config, spec *engine.LoRASpec) (int64, error) {
	lora := model.NewLoRA(spec)
	if spec.Path != "" {
		file, err := model.OpenAdapter(spec.Path, cfg)
		if err != nil {
			return 0, fmt.Errorf("cpu: %w", err)
		}
		defer file.Close()
		lora = file.LoRA
	}
	l, err := newAdapterLayout(cfg, lora)
	if err != nil {
		return 0, fmt.Errorf("cpu: lora: %w", err)
	}
	return int64(l.size), nil
}

// fileBytes returns the size of a model's weights on disk.
func fileBytes(path string) int64 {
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files, _ = filepath.Glob(filepath.Join(path, "*.safetensors")) // a pattern that fails finds none
	}
	var n int64
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			n += info.Size()
		}
	}
	return n
}
