package loss

import (
	"errors"
	"fmt"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/tape"
)

// Value is the loss of a critic: the squared error of its values v against the returns R, with a value that moves no further than ClipRange from
// the V before the update taken as clipped there, where that is worse (after Schulman et al. 2017, as in OpenAI's baselines):
//
//	L = ½·max((v − R)², (clip(v, V − ClipRange, V + ClipRange) − R)²)
//
// and of these the mean over the trained tokens of the whole optimizer step. It reads Experience.Values (V) and Experience.Returns (R).
//
// Metrics: vf_loss, vf_clipfrac (share of tokens where the clipped error is the larger one: they have no gradient), vpred_mean (mean of v).
type Value struct {
	ClipRange float64 // +Inf does not clip

	tapes sync.Pool
}

var _ trinity.Loss = (*Value)(nil)

// NewValue makes the loss.
func NewValue(clipRange float64) (*Value, error) {
	if !(clipRange > 0) {
		return nil, errors.New("cliprange_value must be more than 0; .inf does not clip")
	}
	return &Value{ClipRange: clipRange, tapes: sync.Pool{New: func() any { return new(tape.Tape) }}}, nil
}

// Streams implements trinity.Loss.
func (l *Value) Streams() trinity.Streams { return trinity.Streams{Value: true} }

// Loss implements trinity.Loss. It is safe for concurrent use.
func (l *Value) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	if len(now) != len(b.Experiences) {
		return nil, nil, fmt.Errorf("the engine gave the values of %d sequences for a micro-batch of %d", len(now), len(b.Experiences))
	}
	t := l.tapes.Get().(*tape.Tape)
	defer l.tapes.Put(t)
	in := newInput(t, b)
	v, err := in.variable("value", now, func(s trinity.TokenStats) []float32 { return s.Value })
	if err != nil {
		return nil, nil, err
	}
	before, err := in.constant("values", "of the critic before the update", func(e *trinity.Experience) []float32 { return e.Values })
	if err != nil {
		return nil, nil, err
	}
	returns, err := in.constant("returns", "from an advantage_fn with a critic", func(e *trinity.Experience) []float32 { return e.Returns })
	if err != nil {
		return nil, nil, err
	}
	within := v.Max(before.Plus(-l.ClipRange)).Min(before.Plus(l.ClipRange))
	free, clipped := v.Sub(returns).Square(), within.Sub(returns).Square()
	total := in.Aggregate(TokenMean, free.Max(clipped).Scale(0.5), nil)
	t.Backward(total)
	grads := make([]trinity.TokenGrads, len(b.Experiences))
	for i, g := range unpack[float32](b.Experiences, v.Grad()) {
		grads[i].Value = g
	}
	return grads, trinity.Metrics{
		"vf_loss": total.Scalar(), "vpred_mean": in.Mean(v),
		"vf_clipfrac": in.MeanTrue(func(i int) bool { return clipped.Value()[i] > free.Value()[i] }),
	}, nil
}
