package sampler

import (
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// Plan returns the most memory that a sampler with these options uses, part by part. It runs the
// code of New with arenas that only count.
func Plan(cfg model.Config, opts Options) ([]engine.MemoryPart, error) {
	opts, err := opts.withDefaults(&cfg)
	if err != nil {
		return nil, err
	}
	weights, whole := kernel.NewTally(), kernel.NewTally()
	if _, err := newWeights(&cfg, opts, weights); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	m, err := newNetwork(&cfg, opts, whole)
	if err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	without := opts
	without.MaxTokens = 0
	uncached := kernel.NewTally()
	if _, err := newNetwork(&cfg, without, uncached); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	cores := int64(opts.Pool.Size())
	stage, why := largestStage(&cfg), "packed copy of the published version"
	scratch := "one matrix while weights are published, attention, drawing"
	if opts.InPlace {
		stage, why, scratch = 0, "norms and tables; the sampler reads the engine's matrices", "attention, drawing"
	}
	cache := fmt.Sprintf("%d tokens, of %d sequences at most; taken as they are written", opts.MaxTokens, opts.MaxSequences)
	if cfg.ShortConv != nil {
		cache += "; with the inputs of convolutions"
	}
	drawing := cores * int64(cfg.VocabSize) * 20
	attention := cores * 4 * int64(m.shape.BackwardScratch(opts.MaxModelLen))
	if opts.Drafts != 0 {
		drawing += textBytes
		scratch += ", texts for drafts"
	}
	return []engine.MemoryPart{
		{Kind: "sampler's weights", Bytes: weights.Bytes(), Why: why},
		{Kind: "KV cache", Bytes: whole.Bytes() - uncached.Bytes(), Why: cache},
		{Kind: "sampler's activations", Bytes: uncached.Bytes() - weights.Bytes(), Why: fmt.Sprintf("a step of %d rows, and logits", opts.decodedRows()+opts.PrefillChunk)},
		{Kind: "sampler's scratch", Bytes: 4*int64(stage) + drawing + attention, Why: scratch},
	}, nil
}

// largestStage returns the size of the largest matrix that the loader stages before packing.
func largestStage(cfg *model.Config) int {
	widest := 2 * cfg.WidestMLP()
	for layer := range cfg.NumLayers {
		widest = max(widest, cfg.Projections(layer).QKV.Out)
	}
	return cfg.HiddenSize * widest
}
