package loss

import (
	"context"
	"slices"

	"github.com/trinity-go/trinity"
)

// Needer is a policy loss that reads what the trainer must compute first, such as reference
// log-probabilities.
type Needer interface {
	PolicyLoss
	Needs() trinity.Needs
}

// ReadsAdvantages reports whether a policy loss reads advantages. A loss that reads none has a
// method of this name that returns false. The advantage function of the algorithm type, and
// everything that it needs, is then dropped.
func ReadsAdvantages(p PolicyLoss) bool {
	says, ok := p.(interface{ ReadsAdvantages() bool })
	return !ok || says.ReadsAdvantages()
}

// Demonstrated is a policy loss with a part that learns from demonstrations (Experience.IsExpert).
type Demonstrated interface {
	PolicyLoss
	Demonstrated()
}

// SchemaLoss is a policy loss that learns only from data of one schema, such as preferences. No
// other loss accepts data of that schema.
type SchemaLoss interface {
	PolicyLoss
	Schema() string
}

// Prober is a loss that must know something of a whole optimizer step before the first micro-batch.
// The terms of a [Composite] may be.
type Prober interface {
	// Probes returns the sequences whose log-probabilities Prepare needs: experiences of the step,
	// or sequences made of their parts. If it returns none, the trainer does not call Prepare.
	Probes(whole []*trinity.Experience) []*trinity.Experience
	// Prepare receives the probes, as the experiences of a batch, with their streams under the
	// current weights, and with RefLogprobs if the run has a reference model. The results hold for
	// the step, until the next call of Probes.
	Prepare(ctx context.Context, probes *trinity.Batch, now []trinity.TokenStats) error
}

var _ Prober = (*Composite)(nil)

// Pairs reports whether the policy loss compares pairs; see trinity.Loss.
func (c *Composite) Pairs() bool {
	p, ok := c.Policy.(interface{ Pairs() bool })
	return ok && p.Pairs()
}

// probed is a term with its probes: those from the first to before the last of all probes of a step.
type probed struct {
	term     Prober
	from, to int
}

// Probes implements Prober: it returns the probes of the terms, once where several want the same.
func (c *Composite) Probes(whole []*trinity.Experience) (all []*trinity.Experience) {
	c.probed = nil
	for _, term := range []any{c.Policy, c.KL, c.Bonus} {
		p, ok := term.(Prober)
		if !ok {
			continue
		}
		own := p.Probes(whole)
		if n := len(c.probed); n > 0 && slices.Equal(own, all[c.probed[n-1].from:c.probed[n-1].to]) {
			c.probed = append(c.probed, probed{p, c.probed[n-1].from, c.probed[n-1].to})
			continue
		}
		c.probed = append(c.probed, probed{p, len(all), len(all) + len(own)})
		all = append(all, own...)
	}
	return all
}

// Prepare implements Prober.
func (c *Composite) Prepare(ctx context.Context, probes *trinity.Batch, now []trinity.TokenStats) error {
	for _, p := range c.probed {
		if p.from == p.to {
			continue
		}
		own := probes.Experiences[p.from:p.to]
		if err := p.term.Prepare(ctx, &trinity.Batch{Step: probes.Step, Experiences: own, Whole: own}, now[p.from:p.to]); err != nil {
			return err
		}
	}
	return nil
}

// Open opens the terms that a run opens; see trinity.Advantage. The host is nil in a rehearsal, which
// has no engine and starts no program.
func (c *Composite) Open(host trinity.Host) error {
	for _, term := range []any{c.Policy, c.KL, c.Bonus} {
		if o, ok := term.(interface{ Open(trinity.Host) error }); ok {
			if err := o.Open(host); err != nil {
				return err
			}
		}
	}
	return nil
}

// Needs returns what the terms need from the trainer.
func (c *Composite) Needs() trinity.Needs {
	var needs trinity.Needs
	if p, ok := c.Policy.(Needer); ok {
		needs = p.Needs()
	}
	needs.Reference = needs.Reference || c.KL != nil
	return needs
}
