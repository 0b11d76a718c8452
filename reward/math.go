package reward

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("math_reward",
		"accuracy + format_score. accuracy: 1 when the final answer equals the truth as mathematics, else 0, found as accuracy_reward's auto does. "+
			"format_score: `format_score_coef` when the whole reply is one <think> block and one <answer> block, else −`format_score_coef`. Parts: accuracy, format_score.",
		func() trinity.RewardFunc { return &Math{FormatScoreCoef: 0.1} })
}

// Math scores a reply of thoughts and an answer between tags.
type Math struct {
	FormatScoreCoef float64 `yaml:"format_score_coef" doc:"added for the think and answer blocks, taken without them; 0 scores accuracy alone"`
}

// CheckTask implements trinity.TaskChecker.
func (*Math) CheckTask(t *trinity.Task) error { return wantTruth(t) }

// Score implements trinity.RewardFunc.
func (m *Math) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truth, ok := truthOf(in)
	if !ok {
		return noTruth(in), nil
	}
	format := Format{Coef: m.FormatScoreCoef}
	return trinity.NewReward(map[string]float64{
		"accuracy": right(answers["auto"], in.Response, truth), "format_score": format.score(in.Response),
	}), nil
}
