package loss

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
	"github.com/trinity-go/trinity/internal/bridge"
)

func init() {
	Entropies.Register("python",
		"An entropy term of yours in Python: a class of Trinity-RFT (EntropyLossFn), or a function of entropy, action_mask and expert_mask. "+
			"entropy_loss_fn: my.module.Entropy names it as well; entropy_loss_fn_args are then its arguments. It returns what is subtracted "+
			"from the loss, with its coefficient, and is derived by the entropies. Metric: entropy_loss (with the coefficient).",
		func() Entropy { return &pythonEntropy{pythonTerm: newPythonTerm()} })
	Entropies.Elsewhere("python", "class")
}

// pythonEntropy asks a class or a function in a process of Python for an entropy term of an
// optimizer step. The tape gets its tangent at the current entropies.
type pythonEntropy struct {
	pythonTerm `yaml:",inline"`

	mode  AggMode // of the policy loss
	total float64
	by    map[*trinity.Experience][]float64 // derivatives by the entropies of the trained tokens
}

// Validate checks that the class exists and takes the arguments.
func (p *pythonEntropy) Validate() error { return p.describe("entropy") }

// Coef implements [Entropy]: the class has applied its own.
func (p *pythonEntropy) Coef() float64 { return 1 }

// Probes implements [Prober].
func (p *pythonEntropy) Probes(whole []*trinity.Experience) []*trinity.Experience {
	p.total, p.by = 0, map[*trinity.Experience][]float64{}
	return withTokens(whole, 1)
}

// Prepare implements [Prober].
func (p *pythonEntropy) Prepare(ctx context.Context, b *trinity.Batch, now []trinity.TokenStats) error {
	asked := pythonLoss{pythonTerm: p.pythonTerm}
	asked.is = bridge.Described{Takes: []string{"entropy"}, Needs: []string{"entropy"}}
	question, err := asked.question(b, now)
	if err != nil || p.run.Rehearses() {
		return err
	}
	question["mode"] = p.mode
	var answer struct {
		Loss        *float64
		Derivatives map[string]string
	}
	if err := p.ask(ctx, "entropy", question, &answer); err != nil {
		return fmt.Errorf("entropy term %s: %w", p.Class, err)
	}
	if answer.Loss == nil {
		return fmt.Errorf("entropy term %s: it is no finite number in step %d", p.Class, b.Step)
	}
	p.total = *answer.Loss
	if err := spread(answer.Derivatives["entropy"], b.Experiences, p.by); err != nil {
		return fmt.Errorf("entropy term %s: derivatives by entropy: %w", p.Class, err)
	}
	return nil
}

// Of implements [Entropy].
func (p *pythonEntropy) Of(in *Input, _ AggMode) tape.Stream {
	moved := in.Entropy.Sub(in.Entropy.Detach()).Dot(packed(in, p.by))
	return in.Tape.Value(p.total * in.Share()).Add(moved)
}
