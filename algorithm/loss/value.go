package loss

import (
	"errors"
	"fmt"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// The loss of a critic is the squared error of its values v against the returns R. If v moves
// further than ClipRange (cliprange_value) from V, its value before the update, the error of the
// clipped value counts where it is larger (after Schulman et al. 2017, as in OpenAI's baselines):
//
//	L = ½·max((v − R)², (clip(v, V − ClipRange, V + ClipRange) − R)²)
//
// The loss of a step is the mean of L over the trained tokens of the whole optimizer step. It reads
// Experience.Values (V) and Experience.Returns (R).
//
// Metrics: vf_loss, vf_clipfrac (share of tokens where the clipped error is larger; they have no
// gradient), vpred_mean (mean of v).
type valueLoss struct {
	clipRange float64 // +Inf does not clip

	tapes sync.Pool
}

// NewValue returns the loss of a critic; clipRange must be more than 0, and +Inf does not clip.
func NewValue(clipRange float64) (trinity.Loss, error) {
	if !(clipRange > 0) {
		return nil, errors.New("cliprange_value must be more than 0; .inf does not clip")
	}
	return &valueLoss{clipRange: clipRange, tapes: sync.Pool{New: func() any { return new(tape.Tape) }}}, nil
}

// Streams implements trinity.Loss.
func (l *valueLoss) Streams() trinity.Streams { return trinity.Streams{Value: true} }

// Loss implements trinity.Loss. It is safe for concurrent use.
func (l *valueLoss) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	if len(now) != len(b.Experiences) {
		return nil, nil, fmt.Errorf("the engine returned the values of %d sequences for a micro-batch of %d", len(now), len(b.Experiences))
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
	within := v.Max(before.Plus(-l.clipRange)).Min(before.Plus(l.clipRange))
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
