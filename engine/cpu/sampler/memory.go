package sampler

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile"
)

// Plan is the memory that a sampler of these options uses at most, part by part. It is counted by the code that takes it.
func Plan(cfg modelfile.Config, opts Options) ([]trinity.MemoryPart, error) {
	opts, err := opts.withDefaults(&cfg)
	if err != nil {
		return nil, err
	}
	weights, whole := kernel.NewTally(), kernel.NewTally()
	if _, err := newWeights(&cfg, opts, weights); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	m, err := newModel(&cfg, opts, whole)
	if err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	without := opts
	without.MaxTokens = 0
	uncached := kernel.NewTally()
	if _, err := newModel(&cfg, without, uncached); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	cores := int64(opts.Pool.Size())
	drawing := cores * int64(cfg.VocabSize) * 20
	attention := cores * 4 * int64(m.shape.BackwardScratch(opts.MaxModelLen))
	return []trinity.MemoryPart{
		{Kind: "sampler's weights", Bytes: weights.Bytes(), Why: "packed copy of the published version"},
		{Kind: "KV cache", Bytes: whole.Bytes() - uncached.Bytes(), Why: fmt.Sprintf("%d tokens, of %d sequences at most; taken as it is written", opts.MaxTokens, opts.MaxSequences)},
		{Kind: "sampler's activations", Bytes: uncached.Bytes() - weights.Bytes(), Why: fmt.Sprintf("a step of %d rows, and logits", opts.MaxSequences+opts.PrefillChunk)},
		{Kind: "sampler's scratch", Bytes: 4*int64(largestStage(&cfg)) + drawing + attention, Why: "one matrix while weights are published, attention, drawing"},
	}, nil
}

// largestStage is the size of the largest matrix that is staged to be packed.
func largestStage(cfg *modelfile.Config) int {
	qkv := (cfg.NumHeads + 2*cfg.NumKVHeads) * cfg.HeadDim
	return cfg.HiddenSize * max(qkv, 2*cfg.WidestMLP())
}
