// Package loss holds what an algorithm minimises: policy losses, KL terms, entropy terms, and the
// aggregation of per-token values. Each term is an expression over per-token streams on a
// [tape.Tape]. [Composite] joins the terms into a [trinity.Loss].
//
// Conventions. The n trained tokens (Experience.Mask) of the micro-batch are packed one after the
// other, and streams have the shape [n]. So a loss never sees a token of a prompt or of an
// environment. lp is the current log-probability, old the one recorded when the token was sampled,
// ref the one under the frozen reference model, A the advantage, d = lp − old, r = exp(d), and sg
// the stop-gradient. A sequence without trained tokens counts in no sum and in no number of
// sequences.
//
// A policy loss clamps what it exponentiates to ±20 first (log-ratios: [Input.LogRatio]), so the
// distance between two policies never makes a loss or gradient infinite. lp needs no clamp, because
// it is at most 0.
//
// Every normaliser counts over Batch.Whole, the whole optimizer step. So losses, metrics and
// gradients of the micro-batches add up to those of the step, however the trainer cuts it.
package loss

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
	"github.com/trinity-go/trinity/registry"
)

// PolicyLoss is the main term of a loss.
type PolicyLoss interface {
	// Loss returns the term over the micro-batch, a single number, and metrics that add up over the
	// micro-batches of an optimizer step.
	Loss(in *Input) (tape.Stream, trinity.Metrics, error)
}

// Scorer is a PolicyLoss that trains a reward model: it reads Input.Score, and no log-probabilities.
type Scorer interface {
	PolicyLoss
	Scores()
}

// Comparer is a PolicyLoss that reads Input.Divergence. Compares returns which divergence.
type Comparer interface {
	PolicyLoss
	Compares() trinity.Divergence
}

// PolicyLosses are the registered policy losses.
var PolicyLosses = registry.New[PolicyLoss]("policy_loss_fn", "what the policy gradient follows (algorithm.policy_loss_fn)")

// Input is one micro-batch on a tape, which the terms of a loss read.
type Input struct {
	Batch   *trinity.Batch
	Tape    *tape.Tape
	Logprob tape.Stream // [n] nats, current
	Entropy tape.Stream // [n] nats, current; only if the loss asked for it
	// Divergence [n] of the current distribution from the teacher's, nats; only if the loss asked
	// for it.
	Divergence tape.Stream
	// Score [S] of the current reward model; only if the loss asked for it. It then has no other
	// stream.
	Score tape.Stream

	rows    Rows  // sequences of the loss; nil for all
	trained []int // trained tokens of each sequence of Batch.Whole
	scratch []float64
}

// NewInput packs a micro-batch and the engine's streams onto the tape. asked names the streams that
// the loss reads besides the log-probabilities. The error names the experience whose streams have a
// wrong length.
func NewInput(t *tape.Tape, b *trinity.Batch, now []trinity.TokenStats, asked trinity.Streams) (*Input, error) {
	if len(now) != len(b.Experiences) {
		return nil, fmt.Errorf("the engine returned the streams of %d sequences for a micro-batch of %d", len(now), len(b.Experiences))
	}
	if len(b.Whole) < len(b.Experiences) {
		return nil, fmt.Errorf("Batch.Whole has %d sequences, fewer than the %d of the micro-batch: it must hold the whole "+
			"optimizer step", len(b.Whole), len(b.Experiences))
	}
	in := newInput(t, b)
	var err error
	if asked.Score {
		in.Score, err = in.scores(now)
		return in, err
	}
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

// newInput resets the tape for a micro-batch.
func newInput(t *tape.Tape, b *trinity.Batch) *Input {
	t.Reset(lengths(b.Experiences))
	return &Input{Batch: b, Tape: t, trained: lengths(b.Whole)}
}

// variable packs one stream of the engine.
func (in *Input) variable(name string, now []trinity.TokenStats, column func(trinity.TokenStats) []float32) (tape.Stream, error) {
	in.scratch = in.scratch[:0]
	for i, e := range in.Batch.Experiences {
		v := column(now[i])
		if len(v) != len(e.Mask) {
			return tape.Stream{}, fmt.Errorf("experience %s: the engine returned %d values of %s for %d tokens", e.ID, len(v), name, len(e.Mask))
		}
		var err error
		if in.scratch, err = pack(in.scratch, e, "current "+name, v); err != nil {
			return tape.Stream{}, err
		}
	}
	return in.Tape.Variable(in.scratch), nil
}

// scores packs the scores of the sequences.
func (in *Input) scores(now []trinity.TokenStats) (tape.Stream, error) {
	scores := make([]float64, len(now))
	for i, s := range now {
		if scores[i] = float64(s.Score); math.IsNaN(scores[i]) || math.IsInf(scores[i], 0) {
			return tape.Stream{}, fmt.Errorf("experience %s: the score is %v, want a finite number", in.Batch.Experiences[i].ID, s.Score)
		}
	}
	return in.Tape.SequenceVariable(scores), nil
}

// Over returns the input of a part of the loss that covers only the chosen sequences. The other
// sequences keep the engine's streams, have zeros for recorded values, and do not count in any
// aggregate, count or metric.
func (in *Input) Over(rows Rows) *Input {
	part := *in
	part.rows = rows
	return &part
}

// Old returns the log-probabilities [n] in the denominator of ratios: those of the policy that
// sampled, or those that the trainer computed before the update.
func (in *Input) Old() (tape.Stream, error) {
	return in.constant("logprobs", "of the policy that sampled it", (*trinity.Experience).LogprobsBefore)
}

// HasOld reports whether every sequence of the whole step has the log-probabilities that Old
// returns.
func (in *Input) HasOld() bool {
	for i, e := range in.Batch.Whole {
		if e.LogprobsBefore() == nil && in.trained[i] > 0 {
			return false
		}
	}
	return true
}

// Ref returns the log-probabilities [n] under the frozen reference model.
func (in *Input) Ref() (tape.Stream, error) {
	return in.constant("ref_logprobs", "of the reference model", func(e *trinity.Experience) []float32 { return e.RefLogprobs })
}

// constant packs a per-token slice of the experiences.
func (in *Input) constant(name, origin string, column func(*trinity.Experience) []float32) (tape.Stream, error) {
	in.scratch = in.scratch[:0]
	for _, e := range in.Batch.Experiences {
		if !in.rows.has(e) {
			in.scratch = append(in.scratch, make([]float64, e.TrainedTokens())...)
			continue
		}
		v := column(e)
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

// pack appends the values of the trained tokens.
func pack(dst []float64, e *trinity.Experience, name string, v []float32) ([]float64, error) {
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
		dst = append(dst, x)
	}
	return dst, nil
}

// Rows chooses sequences; nil chooses all.
type Rows func(*trinity.Experience) bool

func (r Rows) has(e *trinity.Experience) bool { return r == nil || r(e) }

// Usual chooses the sequences that the policy sampled, as opposed to demonstrations.
func Usual(e *trinity.Experience) bool { return !e.IsExpert }

// Expert chooses the demonstrations.
func Expert(e *trinity.Experience) bool { return e.IsExpert }

// Mean returns the micro-batch's share of the mean of v [n] over the trained tokens of the whole
// step. Metrics use it, whatever the aggregation mode of the loss.
func (in *Input) Mean(v tape.Stream) float64 { return in.Aggregate(TokenMean, v, nil).Scalar() }

// MeanTrue returns the micro-batch's share of the fraction of the whole step's trained tokens for
// which yes returns true.
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

// SequenceMean returns the micro-batch's share of the mean of v [S] over the sequences of the whole
// step that have trained tokens.
func (in *Input) SequenceMean(v tape.Stream) float64 {
	sum := 0.0
	for i, e := range in.Batch.Experiences {
		if in.rows.has(e) && e.TrainedTokens() > 0 {
			sum += v.Value()[i]
		}
	}
	return sum / float64(max(1, in.count(nil).sequences))
}

// Share returns the micro-batch's share of the sequences of the whole step. A constant times Share
// is a metric that adds up to the constant.
func (in *Input) Share() float64 {
	return float64(len(in.Batch.Experiences)) / float64(len(in.Batch.Whole))
}
