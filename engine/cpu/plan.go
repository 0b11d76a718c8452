package cpu

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/engine/cpu/sampler"
	"github.com/trinity-go/trinity/modelfile"
)

var _ trinity.MemoryPlanner = plugin{}

// PlanMemory implements trinity.MemoryPlanner.
func (plugin) PlanMemory(spec trinity.EngineSpec) ([]trinity.MemoryPart, error) {
	cfg, err := modelfile.ReadConfig(spec.ModelPath)
	if err != nil {
		return nil, err
	}
	opts, err := engineOptions(spec)
	if err != nil {
		return nil, err
	}
	pool := kernel.NewPool(0) // for its number of cores
	defer pool.Close()
	var parts []trinity.MemoryPart
	if spec.Train || spec.Forward {
		opts.Pool = pool
		if parts, err = Plan(cfg, opts); err != nil {
			return nil, err
		}
	}
	if spec.Sample {
		if err := checkHead(cfg, opts); err != nil {
			return nil, err
		}
		sampling, err := samplerOptions(cfg, spec, pool)
		if err != nil {
			return nil, err
		}
		taken, err := sampler.Plan(*cfg, sampling)
		if err != nil {
			return nil, err
		}
		parts = append(parts, taken...)
		if spec.LoRA != nil {
			n, err := adapterFloats(cfg, loraOptions(spec))
			if err != nil {
				return nil, err
			}
			parts = append(parts, trinity.MemoryPart{Kind: "sampler's adapter", Bytes: 3 * 4 * n, Why: "packed, and its successor while that is published; estimate"})
		}
		for _, path := range spec.Adapters {
			n, err := adapterFloats(cfg, &LoRAOptions{Path: path})
			if err != nil {
				return nil, err
			}
			parts = append(parts, trinity.MemoryPart{Kind: "sampled adapter", Bytes: 2 * 4 * n, Why: path + ", packed, and its tensors while they are read; estimate"})
		}
	}
	return withLoading(cfg, spec, parts), nil
}

// adapterFloats is the number of weights of an adapter.
func adapterFloats(cfg *modelfile.Config, opts *LoRAOptions) (int64, error) {
	lora := opts.describe()
	if opts.Path != "" {
		file, err := modelfile.OpenAdapter(opts.Path, cfg)
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

// withLoading adds what reading the weights takes beyond what is in use afterwards: the pages of the mapped file count as memory until it is
// closed. Everything but the trained and the frozen weights is taken later, so that this is rarely more.
func withLoading(cfg *modelfile.Config, spec trinity.EngineSpec, parts []trinity.MemoryPart) []trinity.MemoryPart {
	var weights, whole int64
	for _, p := range parts {
		whole += p.Bytes
		if p.Kind == trainedWeights || p.Kind == frozenWeights {
			weights += p.Bytes
		}
	}
	reading := fileBytes(spec.ModelPath)
	why := "pages of the model's file, which is mapped"
	if !spec.Train && !spec.Forward {
		if spec.LoRA == nil { // checkpoints that are read later are float32
			reading = max(reading, 4*cfg.Parameters())
		}
		reading += 4 * int64(largestTensor(cfg))
		why += ", and one tensor"
		weights = whole // the cache and activations of an earlier version are still there
	}
	if more := weights + reading - whole; more > 0 {
		parts = append(parts, trinity.MemoryPart{Kind: "loading", Bytes: more, Why: why})
	}
	return parts
}

// fileBytes is the size of a model's weights on disk.
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
