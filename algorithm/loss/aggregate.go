package loss

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// AggMode says how per-token values become one number (loss_agg_mode). Below, v_{i,t} is the value
// of trained token t of sequence i, n_i the number of trained tokens of sequence i, N = Σ n_i, and
// S the number of sequences with n_i > 0. All counts are over the whole optimizer step.
//
// Several named variants of GRPO differ only in this mode and one other argument:
//
//   - GRPO as first published, normalised by length: seq-mean-token-mean.
//   - BNPO, one mean over all tokens of the step (also DAPO): token-mean.
//   - Dr. GRPO, without the bias to long wrong answers: seq-mean-token-sum-norm, with advantages
//     that are not divided by the group's standard deviation (advantage_fn grpo with std_cal_level
//     none). algorithm_type dr_grpo sets both.
//   - REINFORCE, the sum over the tokens of a sequence: seq-mean-token-sum.
type AggMode string

const (
	// TokenMean is Σ v / N: every token has the same weight (DAPO, Yu et al. 2025).
	TokenMean AggMode = "token-mean"
	// SeqMeanTokenSum is Σ_i Σ_t v / S: the mean of the sums of the sequences.
	SeqMeanTokenSum AggMode = "seq-mean-token-sum"
	// SeqMeanTokenMean is Σ_i (Σ_t v / n_i) / S: every sequence has the same weight (GRPO, Shao et
	// al. 2024).
	SeqMeanTokenMean AggMode = "seq-mean-token-mean"
	// SeqMeanTokenSumNorm is Σ v / L, with L the length of the longest response of the whole step.
	// The response is everything from the first token that the policy may have written to the end
	// (T − prompt_len), including tokens of an environment. After Dr. GRPO (Liu et al. 2025), whose
	// L is constant. Unlike the other modes, this one grows with the number of sequences.
	SeqMeanTokenSumNorm AggMode = "seq-mean-token-sum-norm"
)

var aggModes = []AggMode{TokenMean, SeqMeanTokenSum, SeqMeanTokenMean, SeqMeanTokenSumNorm}

// Values lists the modes.
func (AggMode) Values() (names []string) {
	for _, a := range aggModes {
		names = append(names, string(a))
	}
	return names
}

// Check returns an error if the mode is unknown.
func (m AggMode) Check() error {
	if slices.Contains(aggModes, m) {
		return nil
	}
	return fmt.Errorf("loss_agg_mode: unknown mode %q (known: %s)", string(m), strings.Join(m.Values(), ", "))
}

// Agg is the argument loss_agg_mode. Policy losses that aggregate per-token values embed it.
type Agg struct {
	LossAggMode AggMode `yaml:"loss_agg_mode" doc:"how a loss's numbers of tokens become one; algorithm.loss_agg_mode overrides it"`
}

func (a *Agg) aggregation() *AggMode { return &a.LossAggMode }

// aggregates returns the mode with which the loss aggregates.
func (a *Agg) aggregates() AggMode { return a.LossAggMode }

// Aggregation returns a pointer to the mode of a policy loss, or nil if the loss has none.
func Aggregation(p PolicyLoss) *AggMode {
	if a, ok := p.(interface{ aggregation() *AggMode }); ok {
		return a.aggregation()
	}
	return nil
}

// Aggregate returns the micro-batch's share of the aggregate of v [n] over the chosen rows.
func (in *Input) Aggregate(mode AggMode, v tape.Stream, rows Rows) tape.Stream {
	whole := in.count(rows)
	weights := make([]float64, 0, in.Tape.Tokens())
	for _, e := range in.Batch.Experiences {
		n, w := e.TrainedTokens(), 0.0
		if n > 0 && in.takes(e, rows) {
			w = 1 / whole.divisor(mode, n)
		}
		for range n {
			weights = append(weights, w)
		}
	}
	return v.Dot(weights)
}

// takes reports whether a sequence belongs to the loss and to rows.
func (in *Input) takes(e *trinity.Experience, rows Rows) bool { return in.rows.has(e) && rows.has(e) }

// counts are the divisors of the aggregates.
type counts struct {
	tokens    int // N
	sequences int // S
	longest   int // L, tokens
}

// count counts the chosen rows of the whole step.
func (in *Input) count(rows Rows) counts {
	var c counts
	for i, e := range in.Batch.Whole {
		if n := in.trained[i]; n > 0 && in.takes(e, rows) {
			c.tokens += n
			c.sequences++
			c.longest = max(c.longest, len(e.Tokens)-e.PromptLen)
		}
	}
	return c
}

// divisor returns the divisor for one token of a sequence with n trained tokens.
func (c counts) divisor(mode AggMode, n int) float64 {
	switch mode {
	case SeqMeanTokenSum:
		return float64(c.sequences)
	case SeqMeanTokenMean:
		return float64(c.sequences) * float64(n)
	case SeqMeanTokenSumNorm:
		return float64(max(c.longest, 1))
	}
	return float64(c.tokens)
}
