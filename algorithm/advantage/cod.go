package advantage

import (
	"context"
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// CoD is the advantage of Connect-the-Dots. There, a run solves a pack of tasks one after the other
// and writes hints to itself between them. By default it is step_wise_grpo. With
// iterative_hint_e2e_causal an episode of the run gets credit only for what came after it:
//
//	g = rewards of the pack's tasks from task k on, if the episode solves task k;
//	    the episode's own reward and the rewards of the tasks after k, if it writes hint k
//	G = mean(g) (mean), the mean of its first W (sliding_window_mean), or Σ γⁱ·g_i (discounted)
//	score = G − mean of G over the pack's runs at the same place (kind of episode and k)
//	A = score at every trained token
//
// A place that only one run reached has score 0. The scores can be weighted: w(score) =
// score·exp(min(score/T, 20)), with a fixed T (red_weight_temp), or with a T that makes the
// token-weighted sum Σ w·n equal 0, where n is the trained tokens of the episode
// (red_weight_adaptive_temp; bisection on [0.8, 100], only if Σ score·n < 0). red_weight_adv_shift
// subtracts the token-weighted mean of the scores from each score, if that mean is negative. Both
// work per pack, per taskset or over the whole batch (red_weight_adaptive_level).
// Experience.Returns is G.
//
// The workflow sets in Info: exp_type ("solve_task" or "gen_hint"); task_idx or hint_idx (k, from
// 0); task_rewards (of the whole pack, in order); taskset_id for the level taskset;
// judge_format_error or judge_format_error_in_trajectory, which is true if a judge found the format
// broken. Such an experience is dropped.
//
// Metrics: those of step_wise_grpo. In the causal mode judge_format_error_count, invalid_count
// (experiences dropped for an invalid reward) and active_weight_temp_mean (T where one was used, 0
// elsewhere).
//
// Unlike Trinity-RFT: if a run has several episodes at one place, the one with the lowest turn
// counts, because the order of a list may change.
type cod struct {
	stepWiseGRPO            `yaml:",inline"`
	IterativeHintE2ECausal  bool     `yaml:"iterative_hint_e2e_causal" doc:"credit each episode with later rewards against other runs"`
	E2ECausalReturnsStyle   string   `yaml:"e2e_causal_returns_style" enum:"mean|sliding_window_mean|discounted" doc:"rewards to a return"`
	E2ECausalReturnsWindow  int      `yaml:"e2e_causal_returns_window" doc:"rewards in the window of sliding_window_mean; at least 1"`
	E2ECausalReturnsGamma   float64  `yaml:"e2e_causal_returns_gamma" range:"[0,1]" doc:"discount per reward of discounted"`
	E2ECausalBaseline       string   `yaml:"e2e_causal_baseline" enum:"group-mean" doc:"baseline of a return"`
	RedWeightTemp           *float64 `yaml:"red_weight_temp" range:"(0,)" doc:"temperature of the weights exp(score/T); null weights nothing"`
	RedWeightAdaptiveTemp   bool     `yaml:"red_weight_adaptive_temp" doc:"find the temperature with a token-weighted sum of advantages of 0"`
	RedWeightAdaptiveVer    *string  `yaml:"red_weight_adaptive_version" doc:"how the temperature is found: bisection"`
	RedWeightAdaptiveLevel  *string  `yaml:"red_weight_adaptive_level" enum:"task|taskset" doc:"scores that belong together; null: the batch"`
	RedWeightAdvantageShift bool     `yaml:"red_weight_adv_shift" doc:"subtract the token-weighted mean of the scores if it is negative"`
}

func init() {
	registry.Advantages.Register("cod",
		"Connect-the-Dots: step_wise_grpo, or with iterative_hint_e2e_causal the mean reward of what came after an episode of "+
			"a pack of tasks, less that of the same episode in the pack's other runs. "+
			"Drops runs without a valid outcome.",
		func() trinity.Advantage {
			return &cod{stepWiseGRPO: *newStepWiseGRPO(), E2ECausalReturnsStyle: "mean", E2ECausalReturnsWindow: -1,
				E2ECausalReturnsGamma: 1, E2ECausalBaseline: "group-mean"}
		})
}

// Validate checks ranges and refuses weights that have no effect.
func (a *cod) Validate() error {
	switch {
	case a.E2ECausalReturnsStyle == "sliding_window_mean" && a.E2ECausalReturnsWindow < 1:
		return errors.New("e2e_causal_returns_window must be at least 1 with sliding_window_mean")
	case a.RedWeightTemp != nil && a.RedWeightAdaptiveTemp:
		return errors.New("red_weight_temp has no effect with red_weight_adaptive_temp: remove one of them")
	case a.RedWeightAdaptiveTemp && (a.RedWeightAdaptiveVer == nil || *a.RedWeightAdaptiveVer != "bisection"):
		return errors.New("red_weight_adaptive_temp needs red_weight_adaptive_version: bisection")
	case !a.IterativeHintE2ECausal && (a.RedWeightTemp != nil || a.RedWeightAdaptiveTemp || a.RedWeightAdvantageShift):
		return errors.New("red_weight_temp, red_weight_adaptive_temp and red_weight_adv_shift have no effect without " +
			"iterative_hint_e2e_causal: true")
	}
	return nil
}

// Needs implements trinity.Advantage.
func (*cod) Needs() trinity.Needs { return trinity.Needs{Steps: true} }

// Advantages implements trinity.Advantage.
func (a *cod) Advantages(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	if a.IterativeHintE2ECausal {
		return a.causal(groups)
	}
	return a.stepWiseGRPO.Advantages(ctx, groups)
}
