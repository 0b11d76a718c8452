package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// bradleyTerry trains a reward model on pairs of a chosen answer w and a rejected answer l to the
// same prompt (Bradley & Terry 1952; Stiennon et al. 2020). Experiences 2i and 2i+1 of an optimizer
// step are w and l, and r is the score of a whole sequence.
//
//	L = −log σ(r(w) − r(l) − m) + c·(r(w) + r(l))², mean over the pairs
//
// The margin m is the pair's own, from the column at format.margin_key (Touvron et al. 2023, eq. 2),
// else 0. The second term keeps the scores around 0, which the first one does not (Eisenstein et
// al. 2023); c is center_rewards_coefficient. A pair with an answer without trained tokens does not
// count.
//
// Metrics: bradley_terry_loss, the first term; accuracy, the share of pairs with r(w) > r(l);
// margin, the mean of r(w) − r(l); mean_reward, the mean of all scores; center_loss, the mean of
// (r(w) + r(l))².
//
// Unlike Trinity-RFT: there is such a loss, so that preferences also give a reward to train with.
type bradleyTerry struct {
	Center float64 `yaml:"center_rewards_coefficient" range:"[0,)" doc:"weight of a pair's squared sum of scores, which keeps them near 0"`
}

func init() {
	PolicyLosses.Register("bradley_terry",
		"Trains a reward model: −log σ(r(w) − r(l) − m) with r the score of a whole sequence, w the chosen and l the rejected answer and m "+
			"the pair's margin, mean over pairs. Needs schema dpo. Metrics: bradley_terry_loss, accuracy, margin, mean_reward, center_loss.",
		func() PolicyLoss { return &bradleyTerry{} })
}

func (*bradleyTerry) Scores() {}

func (*bradleyTerry) Pairs() bool { return true }

func (*bradleyTerry) Schema() string { return "dpo" }

func (*bradleyTerry) ReadsAdvantages() bool { return false }

func (b *bradleyTerry) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	first, second, weights, err := in.pairs()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	chosen, rejected := in.Score.Gather(first), in.Score.Gather(second)
	margin, sum := chosen.Sub(rejected), chosen.Add(rejected)
	likelihood := margin.Sub(in.margins().Gather(first)).LogSigmoid().Neg().Dot(weights)
	center := sum.Square().Dot(weights)
	return likelihood.Add(center.Scale(b.Center)), trinity.Metrics{
		"bradley_terry_loss": likelihood.Scalar(), "center_loss": center.Scalar(), "accuracy": share(margin, weights),
		"margin": margin.Dot(weights).Scalar(), "mean_reward": sum.Scale(0.5).Dot(weights).Scalar(),
	}, nil
}

// margins returns by how much each chosen answer of the micro-batch should be better [S].
func (in *Input) margins() tape.Stream {
	margins := make([]float64, len(in.Batch.Experiences))
	for i, e := range in.Batch.Experiences {
		margins[i], _ = e.Info[trinity.MarginInfo].(float64)
	}
	return in.Tape.SequenceConstant(margins)
}
