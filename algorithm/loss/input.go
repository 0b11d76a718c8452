// Package loss holds what an algorithm minimises: policy losses, KL terms, entropy terms, and how per-token values become one number. Each
// is an expression over per-token streams on a [tape.Tape]; [Composite] joins them into a [trinity.Loss].
//
// Conventions. n trained tokens (Experience.Mask) of the micro-batch are packed one after the other; streams are [n], so that a loss never
// sees a prompt or environment token. lp is the log-probability now, old the one recorded when the token was sampled, ref the one under
// the frozen reference, A the advantage, d = lp − old, r = exp(d), sg the stop-gradient. A sequence without trained tokens counts for
// nothing: it is in no sum and in no number of sequences.
//
// What a policy loss exponentiates is clamped to ±20 first, log-ratios in [Input.LogRatio], so that no distance between two policies makes
// an infinite loss or gradient; lp itself needs no clamp, being at most 0.
//
// Every normaliser counts over Batch.Whole, the whole optimizer step, so losses, metrics and gradients of micro-batches add up to those
// of the step, however it is cut.
package loss

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/tape"
)

// PolicyLoss is the main term of a loss.
type PolicyLoss interface {
	// Loss returns the term over the micro-batch, a single number, and metrics that add up over the micro-batches of an optimizer step.
	Loss(in *Input) (tape.Stream, trinity.Metrics, error)
}

// Comparer is a PolicyLoss that reads Input.Divergence, of the kind that Compares names.
type Comparer interface {
	PolicyLoss
	Compares() trinity.Divergence
}

// PolicyLosses are the registered policy losses.
var PolicyLosses = registry.New[PolicyLoss]("policy_loss_fn", "what the policy gradient follows (algorithm.policy_loss_fn)")

// Input is what the terms of a loss read: one micro-batch on a tape.
type Input struct {
	Batch   *trinity.Batch
	Tape    *tape.Tape
	Logprob tape.Stream // [n] nats, now
	Entropy tape.Stream // [n] nats, now; only if the loss asked for it
	// Divergence [n] nats, now, of the whole distribution from the teacher's; only if the loss asked for it.
	Divergence tape.Stream

	rows    Rows  // sequences that the loss is over; nil for all
	trained []int // trained tokens of each sequence of Batch.Whole
	scratch []float64
}

// NewInput packs a micro-batch, with what the engine gave for it, onto the tape; asked are the streams that the loss reads beside the
// log-probabilities. Errors name an experience that does not fit its streams.
func NewInput(t *tape.Tape, b *trinity.Batch, now []trinity.TokenStats, asked trinity.Streams) (*Input, error) {
	if len(now) != len(b.Experiences) {
		return nil, fmt.Errorf("the engine gave the streams of %d sequences for a micro-batch of %d", len(now), len(b.Experiences))
	}
	if len(b.Whole) < len(b.Experiences) {
		return nil, fmt.Errorf("Batch.Whole has %d sequences, fewer than the %d of the micro-batch: it must hold the whole optimizer step", len(b.Whole), len(b.Experiences))
	}
	in := newInput(t, b)
	var err error
	if in.Logprob, err = in.variable("log-probability", now, func(s trinity.TokenStats) []float32 { return s.Logprob }); err != nil {
		return nil, err
	}
	if asked.Entropy {
		if in.Entropy, err = in.variable("entropy", now, func(s trinity.TokenStats) []float32 { return s.Entropy }); err != nil {
			return nil, err
		}
	}
	if asked.Divergence.Kind != "" {
		if in.Divergence, err = in.variable("divergence", now, func(s trinity.TokenStats) []float32 { return s.Divergence }); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// newInput sets the tape up for a micro-batch.
func newInput(t *tape.Tape, b *trinity.Batch) *Input {
	t.Reset(lengths(b.Experiences))
	return &Input{Batch: b, Tape: t, trained: lengths(b.Whole)}
}

// variable packs a stream of the engine's.
func (in *Input) variable(name string, now []trinity.TokenStats, of func(trinity.TokenStats) []float32) (tape.Stream, error) {
	in.scratch = in.scratch[:0]
	for i, e := range in.Batch.Experiences {
		v := of(now[i])
		if len(v) != len(e.Mask) {
			return tape.Stream{}, fmt.Errorf("experience %s: the engine gave %d values of %s for %d tokens", e.ID, len(v), name, len(e.Mask))
		}
		var err error
		if in.scratch, err = pack(in.scratch, e, "current "+name, v); err != nil {
			return tape.Stream{}, err
		}
	}
	return in.Tape.Variable(in.scratch), nil
}

// Over is the input of a part of a loss that is over the chosen sequences alone. Of the others it has the engine's streams, zeros for what
// was recorded, and no share in any aggregate, count or metric.
func (in *Input) Over(rows Rows) *Input {
	part := *in
	part.rows = rows
	return &part
}

// Old returns the log-probabilities [n] that ratios are against: those under the policy that sampled, or those that the trainer computed
// before the update.
func (in *Input) Old() (tape.Stream, error) {
	return in.constant("logprobs", "of the policy that sampled it", (*trinity.Experience).LogprobsBefore)
}

// HasOld reports whether every sequence of the whole step has the log-probabilities that Old returns.
func (in *Input) HasOld() bool {
	for i, e := range in.Batch.Whole {
		if e.LogprobsBefore() == nil && in.trained[i] > 0 {
			return false
		}
	}
	return true
}

// Ref returns the log-probabilities [n] under the frozen reference.
func (in *Input) Ref() (tape.Stream, error) {
	return in.constant("ref_logprobs", "of the reference model", func(e *trinity.Experience) []float32 { return e.RefLogprobs })
}

// constant packs a per-token slice of the experiences.
func (in *Input) constant(name, origin string, of func(*trinity.Experience) []float32) (tape.Stream, error) {
	in.scratch = in.scratch[:0]
	for _, e := range in.Batch.Experiences {
		if !in.rows.has(e) {
			in.scratch = append(in.scratch, make([]float64, e.TrainedTokens())...)
			continue
		}
		v := of(e)
		if v == nil && e.TrainedTokens() > 0 {
			return tape.Stream{}, fmt.Errorf("experience %s has no %s (%s), which this loss needs", e.ID, name, origin)
		}
		var err error
		if in.scratch, err = pack(in.scratch, e, name, v); err != nil {
			return tape.Stream{}, err
		}
	}
	return in.Tape.Constant(in.scratch), nil
}

// pack appends the trained tokens' values.
func pack(to []float64, e *trinity.Experience, name string, v []float32) ([]float64, error) {
	if v != nil && len(v) != len(e.Mask) {
		return nil, fmt.Errorf("experience %s: %s has length %d, want %d (one per token)", e.ID, name, len(v), len(e.Mask))
	}
	for t, trained := range e.Mask {
		if !trained {
			continue
		}
		x := float64(v[t])
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("experience %s: %s of token %d is %v, want a finite number", e.ID, name, t, x)
		}
		to = append(to, x)
	}
	return to, nil
}

// Rows choose sequences; nil chooses all.
type Rows func(*trinity.Experience) bool

func (r Rows) has(e *trinity.Experience) bool { return r == nil || r(e) }

// Usual chooses what the policy sampled, as opposed to demonstrations mixed in.
func Usual(e *trinity.Experience) bool { return !e.IsExpert }

// Expert chooses the demonstrations.
func Expert(e *trinity.Experience) bool { return e.IsExpert }

// Mean is the mean of v [n] over the trained tokens of the whole step, this micro-batch's share of it. Metrics use it whatever the loss's
// aggregation is.
func (in *Input) Mean(v tape.Stream) float64 { return in.Aggregate(TokenMean, v, nil).Scalar() }

// MeanTrue is the share of the whole step's trained tokens for which yes holds, this micro-batch's part of it.
func (in *Input) MeanTrue(yes func(i int) bool) float64 {
	count, i := 0, 0
	for _, e := range in.Batch.Experiences {
		for range e.TrainedTokens() {
			if in.rows.has(e) && yes(i) {
				count++
			}
			i++
		}
	}
	return float64(count) / float64(max(1, in.count(nil).tokens))
}

// SequenceMean is the mean of v [S] over the sequences of the whole step that have trained tokens, this micro-batch's share of it.
func (in *Input) SequenceMean(v tape.Stream) float64 {
	sum := 0.0
	for i, e := range in.Batch.Experiences {
		if in.rows.has(e) && e.TrainedTokens() > 0 {
			sum += v.Value()[i]
		}
	}
	return sum / float64(max(1, in.count(nil).sequences))
}

// Share is the micro-batch's part of the whole step's sequences: what makes a constant a metric that adds up.
func (in *Input) Share() float64 {
	return float64(len(in.Batch.Experiences)) / float64(len(in.Batch.Whole))
}
