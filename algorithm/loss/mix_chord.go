package loss

import (
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// Mix_chord is mix with a scheduled weight of the demonstrations, and with fine-tuning that spares
// tokens which the policy already knows (CHORD, Zhang et al. 2025):
//
//	loss = (1 − mu)·ppo(rollouts) + mu·sft_phi(demonstrations)
//	mu   = peak·step/warmup                                       while step < warmup
//	     = valley + (peak − valley)·(1 + cos(π·(step − warmup)/decay))/2   then, for decay steps
//	     = valley                                                  after that
//
// step is the trainer's step, from 1. Without enable_phi_function the demonstrations have plain
// SFT.
//
// Metrics: those of mix (with expert/sft_phi_loss or expert/sft_loss), and mu.
//
// Unlike Trinity-RFT: the six arguments about batch sizes are not read, as in mix.
type mixChord struct {
	mixture           `yaml:",inline"`
	MuWarmupSteps     int     `yaml:"mu_warmup_steps" range:"[0,)" doc:"trainer steps in which mu rises from 0 to mu_peak"`
	MuDecaySteps      int     `yaml:"mu_decay_steps" range:"[0,)" doc:"trainer steps in which mu falls to mu_valley, along a cosine"`
	MuPeak            float64 `yaml:"mu_peak" range:"[0,1]" doc:"largest weight of the demonstrations"`
	MuValley          float64 `yaml:"mu_valley" range:"[0,1]" doc:"final weight of the demonstrations"`
	EnablePhiFunction bool    `yaml:"enable_phi_function" doc:"weight the tokens of demonstrations by p·(1 − p), as sft_phi does"`
}

func init() {
	PolicyLosses.Register("mix_chord",
		"CHORD (Zhang et al. 2025): as mix, with a weight mu that rises to mu_peak and falls to mu_valley over the steps, and "+
			"tokens of demonstrations weighted by "+
			"p·(1 − p). Metrics: usual/… (those of ppo), expert/sft_phi_loss or expert/sft_loss, loss, mu.",
		func() PolicyLoss {
			return &mixChord{mixture: newMixture(), MuPeak: 0.1, MuValley: 0.1, EnablePhiFunction: true}
		})
}

func (c *mixChord) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	mu := c.mu(in.Batch.Step)
	var sft PolicyLoss = &sft{Agg{c.expertMode()}}
	if c.EnablePhiFunction {
		sft = newSFTPhi(c.expertMode())
	}
	total, metrics, err := c.mix(in, mu, sft)
	if err != nil {
		return tape.Stream{}, nil, err
	}
	metrics["mu"] = mu * in.Share()
	return total, metrics, nil
}

// mu returns the weight of the demonstrations at a trainer step.
func (c *mixChord) mu(step int64) float64 {
	after := int(step) - c.MuWarmupSteps
	switch {
	case after < 0:
		return c.MuPeak * float64(step) / float64(c.MuWarmupSteps)
	case after >= c.MuDecaySteps:
		return c.MuValley
	}
	return c.MuValley + (c.MuPeak-c.MuValley)*(1+math.Cos(math.Pi*float64(after)/float64(c.MuDecaySteps)))/2
}
