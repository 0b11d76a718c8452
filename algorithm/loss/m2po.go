package loss

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// M2PO is second-moment trust policy optimization (Zheng et al. 2025). Instead of clipping, it
// removes the fewest tokens whose removal bounds the second moment of the log-ratios of an
// optimizer step. Use it to train on rollouts that are many versions old.
//
//	x = lp − old before the step
//	T = {A > 0, x > 0} ∪ {A < 0, x < 0}, the tokens that the update would push further
//	removed: while mean_T(x²) > m2_threshold, the largest remaining x² of T
//	L = −A·exp(x + sg(clamp(x, −c, c) − x)), 0 for removed tokens
//
// T and its mean cover the whole optimizer step, so the engine computes the log-probabilities of
// the step once before the first micro-batch. The clamp bounds the value and keeps the derivative.
// old is the policy that sampled. If the trainer computes old log-probabilities itself
// (bypass_old_logprobs: false), old is the policy before the batch, and only the steps within a
// batch are bounded. The divisor of the loss counts removed tokens. Tokens with the same x² are
// kept or removed together, so their order does not matter.
//
// Metrics: pg_loss (aggregated); means over trained tokens: ppo_kl (old − lp), ratio/mean; of the
// whole step: m2po/m2_before and m2po/m2_after (mean_T(x²), nats², with and without the removed
// tokens), m2po/masked_fraction and m2po/trust_region_fraction (shares of the trained tokens that
// are removed, and that are in T).
//
// Unlike Trinity-RFT: every loss_agg_mode is allowed, because removing tokens before the sum has a
// meaning in each.
type m2po struct {
	Agg          `yaml:",inline"`
	M2Threshold  float64 `yaml:"m2_threshold" range:"(0,inf]" doc:"largest mean squared log-ratio of tokens that moved with the update, nats²"`
	LogRatioClip float64 `yaml:"log_ratio_clip" range:"(0,80]" doc:"log-ratios are clamped to ± this before exponentiation, nats"`

	step m2Step
}

// m2Step holds the choice for one optimizer step.
type m2Step struct {
	left          map[*trinity.Experience][]bool // whether each trained token is removed
	before, after float64                        // mean_T(x²), nats²
	inside        float64                        // share of the trained tokens that are in T
}

func init() {
	PolicyLosses.Register("m2po",
		"Second-moment trust policy optimization (M2PO, Zheng et al. 2025): −A·r without a clip. Of the tokens that have moved "+
			"in the direction of the update, the farthest "+
			"are removed until the mean of their squared log-ratios over the optimizer step is within m2_threshold. For stale "+
			"rollouts. Metrics: pg_loss, ppo_kl, ratio/mean, "+
			"m2po/m2_before, m2po/m2_after, m2po/masked_fraction, m2po/trust_region_fraction.",
		func() PolicyLoss { return &m2po{Agg: Agg{TokenMean}, M2Threshold: 0.04, LogRatioClip: maxExponent} })
}

// Probes implements Prober. It returns every sequence of the step.
func (m *m2po) Probes(whole []*trinity.Experience) []*trinity.Experience {
	m.step = m2Step{}
	return slices.DeleteFunc(slices.Clone(whole), func(e *trinity.Experience) bool { return e.TrainedTokens() == 0 })
}

// Prepare implements Prober. It chooses the tokens to remove from the step.
func (m *m2po) Prepare(_ context.Context, b *trinity.Batch, now []trinity.TokenStats) error {
	probes := b.Experiences
	in, err := NewInput(new(tape.Tape), b, now, trinity.Streams{})
	if err != nil {
		return err
	}
	adv, err := in.RawAdvantages()
	if err != nil {
		return err
	}
	old, err := in.Old()
	if err != nil {
		return err
	}
	step, left := m.choose(in.Logprob.Sub(old).Value(), adv.Value())
	step.left = make(map[*trinity.Experience][]bool, len(probes))
	for _, e := range probes {
		n := e.TrainedTokens()
		step.left[e], left = left[:n:n], left[n:]
	}
	m.step = step
	return nil
}

// choose reports, per trained token of the step, whether it is removed, given x and A of all
// tokens.
func (m *m2po) choose(x, adv []float64) (step m2Step, left []bool) {
	var inside []int // T, by x²
	for i := range x {
		if x[i]*adv[i] > 0 {
			inside = append(inside, i)
		}
	}
	slices.SortFunc(inside, func(i, j int) int { return cmp.Compare(x[i]*x[i], x[j]*x[j]) })
	limit := math.Inf(1) // the smallest x² that is removed
	sum := 0.0
	for k, i := range inside {
		square := x[i] * x[i]
		sum += square
		if sum > m.M2Threshold*float64(k+1) {
			limit = min(limit, square)
		}
	}
	left = make([]bool, len(x))
	within := 0
	for _, i := range inside {
		if square := x[i] * x[i]; square < limit {
			step.after += square
			within++
		} else {
			left[i] = true
		}
	}
	step.before = sum / float64(max(1, len(inside)))
	step.after /= float64(max(1, within))
	step.inside = float64(len(inside)) / float64(max(1, len(x)))
	return step, left
}

func (m *m2po) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	adv, err := in.RawAdvantages() // their signs chose the removed tokens
	if err != nil {
		return tape.Stream{}, nil, err
	}
	old, err := in.Old()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	kept, err := m.kept(in.Batch.Experiences)
	if err != nil {
		return tape.Stream{}, nil, err
	}
	x := in.Logprob.Sub(old)
	ratio := x.Add(x.Clamp(-m.LogRatioClip, m.LogRatioClip).Sub(x).Detach()).Exp()
	perToken, err := in.Weigh(adv.Neg().Mul(ratio).Where(kept, in.Tape.Fill(0)))
	if err != nil {
		return tape.Stream{}, nil, err
	}
	total := in.Aggregate(m.LossAggMode, perToken, nil)
	return total, trinity.Metrics{
		"pg_loss":                    total.Scalar(),
		"ppo_kl":                     -in.Mean(x),
		"ratio/mean":                 in.Mean(ratio),
		"m2po/m2_before":             m.step.before * in.Share(),
		"m2po/m2_after":              m.step.after * in.Share(),
		"m2po/masked_fraction":       in.MeanTrue(func(i int) bool { return !kept[i] }),
		"m2po/trust_region_fraction": m.step.inside * in.Share(),
	}, nil
}

// kept says which trained tokens of a micro-batch are in the loss.
func (m *m2po) kept(micro []*trinity.Experience) ([]bool, error) {
	var kept []bool
	for _, e := range micro {
		left, ok := m.step.left[e]
		if !ok && e.TrainedTokens() > 0 {
			return nil, fmt.Errorf("experience %s was not among the optimizer step that Prepare saw: the trainer must pass the "+
				"whole step to Prepare first", e.ID)
		}
		for _, l := range left {
			kept = append(kept, !l)
		}
	}
	return kept, nil
}
