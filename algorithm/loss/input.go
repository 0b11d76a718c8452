// Package loss holds what an algorithm minimises: policy losses, KL terms, entropy terms, and how per-token values become one number. Each
// is an expression over per-token streams on a [tape.Tape]; [Composite] joins them into a [trinity.Loss].
//
// Conventions. n trained tokens (Experience.Mask) of the micro-batch are packed one after the other; streams are [n], so that a loss never
// sees a prompt or environment token. lp is the log-probability now, old the one recorded when the token was sampled, ref the one under
// the frozen reference, A the advantage, r = exp(lp − old), sg the stop-gradient. A sequence without trained tokens counts for nothing: it
// is in no sum and in no number of sequences.
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

// PolicyLosses are the registered policy losses.
var PolicyLosses = registry.New[PolicyLoss]("policy_loss_fn", "what the policy gradient follows (algorithm.policy_loss_fn)")

// Input is what the terms of a loss read: one micro-batch on a tape.
type Input struct {
	Batch   *trinity.Batch
	Tape    *tape.Tape
	Logprob tape.Stream // [n] nats, now
	Entropy tape.Stream // [n] nats, now; only if the loss asked for it

	trained []int // trained tokens of each sequence of Batch.Whole
	scratch []float64
}

// newInput sets the tape up for a micro-batch.
func newInput(t *tape.Tape, b *trinity.Batch) *Input {
	t.Reset(lengths(b.Experiences))
	return &Input{Batch: b, Tape: t, trained: lengths(b.Whole)}
}

// Old returns the log-probabilities [n] that ratios are against: those under the policy that sampled, or those that the trainer computed
// before the update.
func (in *Input) Old() (tape.Stream, error) {
	return in.constant("logprobs", "of the policy that sampled it", old)
}

func old(e *trinity.Experience) []float32 {
	if e.OldLogprobs != nil {
		return e.OldLogprobs
	}
	return e.Logprobs
}

// HasOld reports whether every sequence of the micro-batch has the log-probabilities that Old returns.
func (in *Input) HasOld() bool {
	for _, e := range in.Batch.Experiences {
		if old(e) == nil && e.TrainedTokens() > 0 {
			return false
		}
	}
	return true
}

// Ref returns the log-probabilities [n] under the frozen reference.
func (in *Input) Ref() (tape.Stream, error) {
	return in.constant("ref_logprobs", "of the reference model", func(e *trinity.Experience) []float32 { return e.RefLogprobs })
}

// Advantages returns the advantages [n] times the weights of rollout correction: a factor of the advantage is one of the policy loss, which
// is proportional to the advantage on either side of 0.
func (in *Input) Advantages() (tape.Stream, error) {
	return in.constant("advantages", "from an advantage_fn", weighted)
}

func weighted(e *trinity.Experience) []float32 {
	if e.PolicyWeights == nil || len(e.PolicyWeights) != len(e.Advantages) {
		return e.Advantages
	}
	out := make([]float32, len(e.Advantages))
	for t, w := range e.PolicyWeights {
		out[t] = w * e.Advantages[t]
	}
	return out
}

// constant packs a per-token slice of the experiences.
func (in *Input) constant(name, origin string, of func(*trinity.Experience) []float32) (tape.Stream, error) {
	in.scratch = in.scratch[:0]
	for _, e := range in.Batch.Experiences {
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

// Mean is the mean of v [n] over the trained tokens of the whole step, this micro-batch's share of it. Metrics use it whatever the loss's
// aggregation is.
func (in *Input) Mean(v tape.Stream) float64 { return in.Aggregate(TokenMean, v, nil).Scalar() }

// MeanTrue is the share of the whole step's trained tokens for which yes holds, this micro-batch's part of it.
func (in *Input) MeanTrue(yes func(i int) bool) float64 {
	count := 0
	for i := range in.Tape.Tokens() {
		if yes(i) {
			count++
		}
	}
	return float64(count) / float64(max(1, in.count(nil).tokens))
}

// SequenceMean is the mean of v [S] over the sequences of the whole step that have trained tokens, this micro-batch's share of it.
func (in *Input) SequenceMean(v tape.Stream) float64 {
	sum := 0.0
	for i, e := range in.Batch.Experiences {
		if e.TrainedTokens() > 0 {
			sum += v.Value()[i]
		}
	}
	return sum / float64(max(1, in.count(nil).sequences))
}

// Share is the micro-batch's part of the whole step's sequences: what makes a constant a metric that adds up.
func (in *Input) Share() float64 {
	return float64(len(in.Batch.Experiences)) / float64(len(in.Batch.Whole))
}
