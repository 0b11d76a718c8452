package torch

import (
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

// tensorOf returns how many ranks divide each matrix.
func tensorOf(spec engine.TrainerSpec) int { return max(1, spec.Tensor) }

// sequenceOf returns how many ranks hold the parts of a row.
func sequenceOf(spec engine.TrainerSpec) int { return max(1, spec.Sequence) }

// ofRow returns the most tokens of a row: those of all ranks that hold it.
func ofRow(spec engine.TrainerSpec) int { return spec.MicroTokens * sequenceOf(spec) }

// checkLayout refuses models that so many ranks cannot divide.
func checkLayout(cfg *model.Config, spec engine.TrainerSpec) error {
	if err := checkTensor(cfg, spec); err != nil {
		return err
	}
	const key = "trainer.ulysses_sequence_parallel_size"
	n, tensor, ranks := sequenceOf(spec), tensorOf(spec), max(1, spec.Place.Nodes)*max(1, spec.Place.Ranks)
	switch heads := cfg.NumHeads / tensor; {
	case n == 1:
	case ranks%(n*tensor) != 0:
		return fmt.Errorf("torch: %s %d: groups of %d ranks (%d for a row × %d for a matrix) do not fit into the trainer's %d; "+
			"use a smaller number, or a multiple of %d ranks (cluster.trainer_ranks)", key, n, n*tensor, n, tensor, ranks, n*tensor)
	case heads%n != 0:
		return fmt.Errorf("torch: %s %d: %s has %d attention heads on a rank; use a divisor of that number", key, n, spec.ModelPath, heads)
	}
	return nil
}

// checkTensor refuses models whose matrices so many ranks cannot divide.
func checkTensor(cfg *model.Config, spec engine.TrainerSpec) error {
	n, ranks := tensorOf(spec), max(1, spec.Place.Nodes)*max(1, spec.Place.Ranks)
	if n == 1 {
		return nil
	}
	refuse := func(format string, a ...any) error {
		return fmt.Errorf("torch: trainer.megatron.tensor_model_parallel_size %d: "+format, append([]any{n}, a...)...)
	}
	switch {
	case ranks%n != 0:
		return refuse("groups of %d ranks do not fit into the trainer's %d; "+
			"use a smaller number, or a multiple of %d ranks (cluster.trainer_ranks)", n, ranks, n)
	case strategyOf(spec) != shards:
		return refuse("it works with trainer.trainer_strategy fsdp2 only")
	case spec.LoRA != nil:
		return refuse("an adapter is trained on whole matrices: use fsdp2 alone")
	case cfg.Mixture != nil:
		return refuse("%s has experts, which are not divided: use fsdp2 alone", spec.ModelPath)
	}
	for _, size := range []struct {
		what string
		n    int
	}{
		{"attention heads", cfg.NumHeads}, {"key-value heads", cfg.NumKVHeads}, {"numbers in its MLP", cfg.IntermediateSize},
		{"tokens in its vocabulary", cfg.VocabSize},
	} {
		if size.n%n != 0 {
			return refuse("%s has %d %s; use a divisor of that number", spec.ModelPath, size.n, size.what)
		}
	}
	return nil
}
