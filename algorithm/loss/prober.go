package loss

import "github.com/trinity-go/trinity"

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

var _ trinity.Prober = (*Composite)(nil)

// Pairs reports whether the policy loss compares pairs; see trinity.Loss.
func (c *Composite) Pairs() bool {
	p, ok := c.Policy.(interface{ Pairs() bool })
	return ok && p.Pairs()
}

// Probes implements trinity.Prober: it returns the probes of the policy loss.
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

// Needs returns what the terms need from the trainer.
func (c *Composite) Needs() trinity.Needs {
	var needs trinity.Needs
	if p, ok := c.Policy.(Needer); ok {
		needs = p.Needs()
	}
	needs.Reference = needs.Reference || c.KL != nil
	return needs
}
