package loss

import (
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// Composite is a policy loss with its KL and entropy terms:
//
//	loss = pg − entropy_coef·entropy + kl_coef·kl
//
// Its metrics are the metrics of the policy loss, kl_loss and entropy_loss (aggregated, before
// their coefficients), kl_coef and final_loss. Each adds up over the micro-batches of an optimizer step. A
// Composite is safe for concurrent use, except Probes, Prepare, AfterStep and SetKLCoef.
type Composite struct {
	Policy PolicyLoss
	KL     KL      // nil: no KL term
	Bonus  Entropy // nil: no entropy term
	Mode   AggMode // aggregates KL and entropy; the policy loss has its own

	klCoef float64
	probed []probed // of the step
	tapes  sync.Pool
}

// NewComposite joins the terms. It drops a KL term with weight 0 and the terms named "none". KL and
// entropy use the aggregation mode of the policy loss, or token-mean if it has none.
func NewComposite(policy PolicyLoss, kl KL, entropy Entropy) *Composite {
	c := &Composite{Policy: policy, Mode: TokenMean}
	if p, ok := policy.(interface{ aggregates() AggMode }); ok {
		c.Mode = p.aggregates()
	}
	if kl != nil && kl.Controller().KLCoef != 0 {
		c.KL, c.klCoef = kl, kl.Controller().KLCoef
	}
	if _, none := entropy.(*noEntropy); !none {
		c.Bonus = entropy
	}
	if p, ok := entropy.(*pythonEntropy); ok {
		p.mode = c.Mode
	}
	c.tapes.New = func() any { return new(tape.Tape) }
	return c
}

// Streams returns the streams that the loss reads: the entropy if there is an entropy term, and the
// divergence or the score that the policy loss reads.
func (c *Composite) Streams() trinity.Streams {
	if _, ok := c.Policy.(Scorer); ok {
		return trinity.Streams{Score: true}
	}
	s := trinity.Streams{Entropy: c.Bonus != nil || c.readsEntropy()}
	if p, ok := c.Policy.(Comparer); ok {
		s.Divergence = p.Compares()
	}
	return s
}

// readsEntropy reports whether the policy loss reads Input.Entropy.
func (c *Composite) readsEntropy() bool {
	p, ok := c.Policy.(interface{ readsEntropy() bool })
	return ok && p.readsEntropy()
}

// Loss implements trinity.Loss.
func (c *Composite) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	t := c.tapes.Get().(*tape.Tape)
	defer c.tapes.Put(t)
	in, err := NewInput(t, b, now, c.Streams())
	if err != nil {
		return nil, nil, err
	}
	total, metrics, err := c.terms(in)
	if err != nil {
		return nil, nil, err
	}
	metrics["final_loss"] = total.Scalar()
	t.Backward(total)
	grads := make([]trinity.TokenGrads, len(b.Experiences))
	if c.Streams().Score {
		for i, g := range in.Score.Grad() {
			grads[i].Score = float32(g)
		}
		return grads, metrics, nil
	}
	for i, g := range unpack[float32](b.Experiences, in.Logprob.Grad()) {
		grads[i].Logprob = g
	}
	if c.Bonus != nil && c.Bonus.Coef() != 0 || c.readsEntropy() {
		for i, g := range unpack[float32](b.Experiences, in.Entropy.Grad()) {
			grads[i].Entropy = g
		}
	}
	if _, ok := c.Policy.(Comparer); ok {
		for i, g := range unpack[float32](b.Experiences, in.Divergence.Grad()) {
			grads[i].Divergence = g
		}
	}
	return grads, metrics, nil
}

// terms returns the sum of the terms and their metrics.
func (c *Composite) terms(in *Input) (tape.Stream, trinity.Metrics, error) {
	total, metrics, err := c.Policy.Loss(in)
	if err != nil {
		return tape.Stream{}, nil, err
	}
	if c.Bonus != nil {
		entropy := c.Bonus.Of(in, c.Mode)
		metrics["entropy_loss"] = entropy.Scalar()
		total = total.Sub(entropy.Scale(c.Bonus.Coef()))
	}
	if c.KL != nil {
		ref, err := in.Ref()
		if err != nil {
			return tape.Stream{}, nil, err
		}
		var old *tape.Stream
		if in.HasOld() {
			s, err := in.Old()
			if err != nil {
				return tape.Stream{}, nil, err
			}
			old = &s
		}
		kl := in.Aggregate(c.Mode, c.KL.Estimate(in, in.Logprob, ref, old), nil)
		metrics["kl_loss"] = kl.Scalar()
		metrics["kl_coef"] = c.klCoef * in.Share()
		total = total.Add(kl.Scale(c.klCoef))
	}
	return total, metrics, nil
}

// KLCoef returns the current weight of the KL term, 0 without one.
func (c *Composite) KLCoef() float64 { return c.klCoef }

// SetKLCoef restores the weight of the KL term, for example from a checkpoint.
func (c *Composite) SetKLCoef(coef float64) { c.klCoef = coef }

// AfterStep adapts kl_coef after an optimizer step. metrics are the sums over the step's
// micro-batches; sequences is the number of sequences in the step.
func (c *Composite) AfterStep(metrics trinity.Metrics, sequences int) {
	if c.KL != nil {
		c.klCoef = c.KL.Controller().Next(c.klCoef, metrics["kl_loss"], sequences)
	}
}
