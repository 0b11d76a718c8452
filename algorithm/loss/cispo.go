package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// CISPO clips the importance weight instead of the update (MiniMax-M1, Chen et al. 2025). Every
// token keeps its derivative, with a bounded weight.
//
//	L = −A·sg(clip(r, 1 − low, 1 + high))·lp
//
// With enable_mask_clip, L is 0 where PPO would clip: at tokens with A > 0 and r > 1 + mask_high,
// or A < 0 and r < 1 − mask_low. The divisor of the loss stays the same.
//
// Metrics: cispo_loss (aggregated); means over trained tokens: ppo_kl (−d), unmasked_frac (share of
// tokens that are not masked).
type cispo struct {
	Agg               `yaml:",inline"`
	ClipRangeLow      float64 `yaml:"clip_range_low" range:"[0,inf]" doc:"the weight is at least 1 minus this; 1, as in the paper, is none"`
	ClipRangeHigh     float64 `yaml:"clip_range_high" range:"[0,inf]" doc:"the weight is at most 1 plus this"`
	EnableMaskClip    bool    `yaml:"enable_mask_clip" doc:"mask the tokens that PPO would clip"`
	MaskClipRangeLow  float64 `yaml:"mask_clip_range_low" range:"[0,inf]" doc:"with the mask: least ratio is 1 minus this if A < 0; 1: none"`
	MaskClipRangeHigh float64 `yaml:"mask_clip_range_high" range:"[0,inf]" doc:"with the mask: largest ratio is 1 plus this if A > 0"`
}

func init() {
	PolicyLosses.Register("cispo",
		"Clipped importance-sampling weight policy optimization (MiniMax-M1, Chen et al. 2025): −A·sg(clip(r, 1 − low, 1 + high))·lp, so every "+
			"token keeps its derivative. Optionally without the tokens that PPO would clip. Metrics: cispo_loss, ppo_kl, unmasked_frac.",
		func() PolicyLoss {
			return &cispo{Agg: Agg{TokenMean}, ClipRangeLow: 1, ClipRangeHigh: 0.28, MaskClipRangeLow: 1, MaskClipRangeHigh: 0.28}
		})
}

func (c *cispo) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	adv, err := in.Advantages()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	d, err := in.LogRatio()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	ratio := d.Detach().Exp()
	perToken := adv.Neg().Mul(ratio.Clamp(1-c.ClipRangeLow, 1+c.ClipRangeHigh)).Mul(in.Logprob)
	kept := c.keeps(adv.Value(), ratio.Value())
	total := in.Aggregate(c.LossAggMode, perToken.Where(kept, in.Tape.Fill(0)), nil)
	return total, trinity.Metrics{
		"cispo_loss":    total.Scalar(),
		"ppo_kl":        -in.Mean(d),
		"unmasked_frac": in.MeanTrue(func(i int) bool { return kept[i] }),
	}, nil
}

// keeps reports, per token, whether it is in the loss.
func (c *cispo) keeps(adv, ratio []float64) []bool {
	kept := make([]bool, len(adv))
	for i, a := range adv {
		gone := a > 0 && ratio[i] > 1+c.MaskClipRangeHigh || a < 0 && ratio[i] < 1-c.MaskClipRangeLow
		kept[i] = !(c.EnableMaskClip && gone)
	}
	return kept
}
