package loss

import "github.com/trinity-go/trinity"

// Needer is a policy loss that reads what the trainer has to compute first, such as reference log-probabilities.
type Needer interface {
	PolicyLoss
	Needs() trinity.Needs
}

// ReadsAdvantages reports whether a policy loss reads advantages. One that does not has a method of this name that says so: an algorithm type's own
// advantage function is then left out beside it, with all that it needs.
func ReadsAdvantages(p PolicyLoss) bool {
	says, ok := p.(interface{ ReadsAdvantages() bool })
	return !ok || says.ReadsAdvantages()
}

// Demonstrated is a policy loss of which a part learns from demonstrations that are mixed in (Experience.IsExpert).
type Demonstrated interface {
	PolicyLoss
	Demonstrated()
}

// SchemaLoss is a policy loss that only makes sense of data of one schema, such as preferences; no other loss makes sense of those.
type SchemaLoss interface {
	PolicyLoss
	Schema() string
}

var (
	_ trinity.PairLoss = (*Composite)(nil)
	_ trinity.Prober   = (*Composite)(nil)
)

// Pairs implements trinity.PairLoss.
func (c *Composite) Pairs() bool {
	p, ok := c.Policy.(trinity.PairLoss)
	return ok && p.Pairs()
}

// Probes implements trinity.Prober: those of the policy loss.
func (c *Composite) Probes(whole []*trinity.Experience) []*trinity.Experience {
	if p, ok := c.Policy.(trinity.Prober); ok {
		return p.Probes(whole)
	}
	return nil
}

// Prepare implements trinity.Prober.
func (c *Composite) Prepare(probes []*trinity.Experience, now []trinity.TokenStats) error {
	if p, ok := c.Policy.(trinity.Prober); ok {
		return p.Prepare(probes, now)
	}
	return nil
}

// Needs are what the terms read of the trainer.
func (c *Composite) Needs() trinity.Needs {
	var needs trinity.Needs
	if p, ok := c.Policy.(Needer); ok {
		needs = p.Needs()
	}
	needs.Reference = needs.Reference || c.KL != nil
	return needs
}
