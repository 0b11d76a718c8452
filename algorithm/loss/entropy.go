package loss

import (
	"errors"
	"math"

	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/tape"
)

// Entropy is the entropy term of a loss: the loss is lower by Coef times the aggregated entropy (Williams & Peng 1991).
type Entropy interface {
	Coef() float64
	// Of returns the aggregated entropy, a single number.
	Of(in *Input, mode AggMode) tape.Stream
}

// Entropies are the registered entropy terms. "none" asks the engine for no entropy.
var Entropies = registry.New[Entropy]("entropy_loss_fn", "the entropy bonus in the loss (algorithm.entropy_loss_fn)")

// EntropyBonus is −entropy_coef times the aggregated entropy of the next-token distributions, over the chosen rows. The metric entropy_loss
// is the aggregated entropy itself, reported even when the coefficient is 0.
type EntropyBonus struct {
	EntropyCoef float64 `yaml:"entropy_coef" doc:"weight of the entropy in the loss; positive keeps the policy more random"`
	rows        Rows
}

// NoEntropy is the absent term; Composite leaves it out.
type NoEntropy struct{}

func init() {
	Entropies.Register("none", "No entropy term; the entropy is not computed.", func() Entropy { return &NoEntropy{} })
	Entropies.Register("default", "Aggregated entropy of the next-token distributions at trained tokens; the loss is lower by entropy_coef times it. Metric: entropy_loss (without the coefficient).",
		func() Entropy { return &EntropyBonus{} })
	Entropies.Register("mix", "As default, over the sequences that the policy sampled; demonstrations (is_expert) are left out.",
		func() Entropy { return &EntropyBonus{rows: Usual} })
}

// Validate refuses a coefficient that is not a number.
func (e *EntropyBonus) Validate() error {
	if math.IsNaN(e.EntropyCoef) || math.IsInf(e.EntropyCoef, 0) {
		return errors.New("entropy_coef must be a finite number")
	}
	return nil
}

func (e *EntropyBonus) Coef() float64 { return e.EntropyCoef }

func (e *EntropyBonus) Of(in *Input, mode AggMode) tape.Stream {
	return in.Aggregate(mode, in.Entropy, e.rows)
}

func (*NoEntropy) Coef() float64 { return 0 }

func (*NoEntropy) Of(in *Input, _ AggMode) tape.Stream { return in.Tape.Zero() }
