package loss

import (
	"github.com/trinity-go/trinity/algorithm/tape"
	"github.com/trinity-go/trinity/registry"
)

// Entropy is the entropy term of a loss. It lowers the loss by Coef times the aggregated entropy
// (Williams & Peng 1991).
type Entropy interface {
	Coef() float64
	// Of returns the aggregated entropy, a single number.
	Of(in *Input, mode AggMode) tape.Stream
}

// Entropies are the registered entropy terms. With "none" the engine computes no entropy.
var Entropies = registry.New[Entropy]("entropy_loss_fn", "the entropy bonus in the loss (algorithm.entropy_loss_fn)")

// entropyBonus is −entropy_coef times the aggregated entropy of the next-token distributions over
// the chosen rows. The metric entropy_loss is the aggregated entropy itself, also when the
// coefficient is 0.
type entropyBonus struct {
	EntropyCoef float64 `yaml:"entropy_coef" range:"(,)" doc:"weight of the entropy in the loss; a positive one keeps the policy more random"`
	rows        Rows
}

// noEntropy is the absent term. Composite drops it.
type noEntropy struct {
	EntropyCoef float64 `yaml:"entropy_coef" doc:"not used, because there is no term"`
}

func init() {
	Entropies.Register("none", "No entropy term; the entropy is not computed.", func() Entropy { return &noEntropy{} })
	Entropies.Register("default",
		"Aggregated entropy of the next-token distributions at trained tokens, subtracted from the loss with the weight "+
			"entropy_coef. Metric: entropy_loss (without the coefficient).",
		func() Entropy { return &entropyBonus{} })
	Entropies.Register("mix", "As default, over the sequences that the policy sampled, without demonstrations (is_expert).",
		func() Entropy { return &entropyBonus{rows: Usual} })
}

func (e *entropyBonus) Coef() float64 { return e.EntropyCoef }

func (e *entropyBonus) Of(in *Input, mode AggMode) tape.Stream {
	return in.Aggregate(mode, in.Entropy, e.rows)
}

func (*noEntropy) Coef() float64 { return 0 }

func (*noEntropy) Of(in *Input, _ AggMode) tape.Stream { return in.Tape.Value(0) }
