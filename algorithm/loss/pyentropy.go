package loss

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
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
func (p *pythonEntropy) Validate() error {
	err := p.describe("entropy", "entropy term")
	p.is.Takes, p.is.Needs = []string{"entropy"}, []string{"entropy"}
	return err
}

// Coef implements [Entropy]: the class has applied its own.
func (p *pythonEntropy) Coef() float64 { return 1 }

// Probes implements [Prober].
func (p *pythonEntropy) Probes(whole []*trinity.Experience) []*trinity.Experience {
	p.total, p.by = 0, map[*trinity.Experience][]float64{}
	return withTokens(whole, 1)
}

// Prepare implements [Prober].
func (p *pythonEntropy) Prepare(ctx context.Context, b *trinity.Batch, now []trinity.TokenStats) error {
	question, err := p.question(b, now)
	if err != nil || p.run.Rehearses() {
		return err
	}
	question["mode"] = p.mode
	var answer struct {
		Loss        *float64
		Derivatives map[string]string
	}
	if err := p.ask(ctx, "entropy", question, &answer); err != nil {
		return err
	}
	if answer.Loss == nil {
		return fmt.Errorf("%s: it is no finite number in step %d", p.who, b.Step)
	}
	p.total = *answer.Loss
	if err := spread(answer.Derivatives["entropy"], b.Experiences, p.by); err != nil {
		return fmt.Errorf("%s: derivatives by entropy: %w", p.who, err)
	}
	return nil
}

// Of implements [Entropy].
func (p *pythonEntropy) Of(in *Input, _ AggMode) tape.Stream {
	moved := in.Entropy.Sub(in.Entropy.Detach()).Dot(byToken(in, p.by))
	return in.Tape.Value(p.total * in.Share()).Add(moved)
}
