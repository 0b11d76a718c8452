package loss

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// DPO is direct preference optimization (Rafailov et al. 2023, eq. 7) over pairs of a chosen answer
// w and a rejected answer l to the same prompt, with conservative label smoothing (Mitchell 2023).
// Experiences 2i and 2i+1 of an optimizer step are w and l.
//
//	z = Σ_t (lp − ref) of w − Σ_t (lp − ref) of l
//	L = −(1 − ls)·log σ(β·z) − ls·log σ(−β·z), mean over the pairs
//
// A pair with an answer without trained tokens does not count.
//
// Metrics: dpo_loss; chosen_reward and rejected_reward, the means of β·Σ_t (lp − ref);
// accuracy_mean, the share of pairs with z > 0, which is 0 before training; ranking_accuracy, the
// share of pairs where Σ_t lp is larger for w than for l (Chen et al. 2024), whatever the reference
// model says.
//
// Unlike Trinity-RFT: the log-ratios are summed over the tokens of each answer and the loss is the
// mean over pairs, because the sigmoid of a sum over all pairs of a batch is not the likelihood of
// the preferences: one extreme pair would hide all others.
type dpo struct {
	Beta           float64 `yaml:"beta" range:"(0,)" doc:"weight of a log-ratio difference, per nat; lower frees the policy"`
	LabelSmoothing float64 `yaml:"label_smoothing" range:"[0,0.5)" doc:"probability that a preference label is wrong"`
}

func init() {
	PolicyLosses.Register("dpo",
		"Direct preference optimization (Rafailov et al. 2023): −log σ(β·z) with z the difference of Σ(lp − ref) between the chosen and the "+
			"rejected answer, mean over pairs; label_smoothing is conservative DPO (Mitchell 2023). Needs the reference model and "+
			"schema dpo. Metrics: dpo_loss, "+
			"chosen_reward, rejected_reward, accuracy_mean, ranking_accuracy.",
		func() PolicyLoss { return &dpo{Beta: 0.1} })
}

func (d *dpo) Pairs() bool { return true }

func (d *dpo) Needs() trinity.Needs { return trinity.Needs{Reference: true} }

func (d *dpo) Schema() string { return "dpo" }

func (*dpo) ReadsAdvantages() bool { return false }

func (d *dpo) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	ref, err := in.Ref()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	first, second, weights, err := in.pairs()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	likelihood := in.Logprob.SeqSum(nil)
	reward := in.Logprob.Sub(ref).SeqSum(nil).Scale(d.Beta)
	chosen, rejected := reward.Gather(first), reward.Gather(second)
	margin := chosen.Sub(rejected)
	perPair := margin.LogSigmoid().Scale(d.LabelSmoothing - 1).Sub(margin.Neg().LogSigmoid().Scale(d.LabelSmoothing))
	total := perPair.Dot(weights)
	return total, trinity.Metrics{
		"dpo_loss": total.Scalar(), "chosen_reward": chosen.Dot(weights).Scalar(), "rejected_reward": rejected.Dot(weights).Scalar(),
		"accuracy_mean": share(margin, weights), "ranking_accuracy": share(likelihood.Gather(first).Sub(likelihood.Gather(second)), weights),
	}, nil
}

// share returns the sum of the weights of the positive numbers of v.
func share(v tape.Stream, weights []float64) float64 {
	sum := 0.0
	for i, x := range v.Value() {
		if x > 0 {
			sum += weights[i]
		}
	}
	return sum
}

// pairs returns the sequences of the micro-batch that are compared: first[k] with second[k]. A
// weighted sum over these pairs is the micro-batch's share of the mean over all pairs of the step.
// pairs omits a pair with an answer without trained tokens.
func (in *Input) pairs() (first, second []int, weights []float64, err error) {
	if n := len(in.Batch.Experiences); n%2 != 0 {
		return nil, nil, nil, fmt.Errorf("a micro-batch of %d sequences cannot be cut into the pairs that this loss compares", n)
	}
	count := 0
	for i := 0; i+1 < len(in.trained); i += 2 {
		if in.trained[i] > 0 && in.trained[i+1] > 0 {
			count++
		}
	}
	for i := 0; i < len(in.Batch.Experiences); i += 2 {
		if in.Batch.Experiences[i].TrainedTokens() > 0 && in.Batch.Experiences[i+1].TrainedTokens() > 0 {
			first, second = append(first, i), append(second, i+1)
			weights = append(weights, 1/float64(count))
		}
	}
	return first, second, weights, nil
}
