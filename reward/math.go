package reward

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("math_reward",
		"accuracy + format_score. accuracy: 1 if the final answer equals the truth mathematically, else 0; "+
			"it finds the answer as accuracy_reward does with auto. format_score: `format_score_coef` if the "+
			"whole reply matches `pattern`, by default one <think> block and one <answer> block, else "+
			"−`format_score_coef`, as in format_reward. Parts: accuracy, format_score.",
		func() trinity.RewardFunc { return &mathReward{FormatScoreCoef: 0.1} })
}

// mathReward scores a reply with reasoning and an answer, each between tags.
//
// Unlike Trinity-RFT: the pattern is for the whole reply and in RE2 syntax, whose time is linear; by
// default each tag occurs once; of several <answer> tags the last one counts, and not the first,
// because a model may correct itself; a short last line is the answer even if it holds no number,
// because a number before it is one on the way; an expression in running text, such as 3 * (4 + 5),
// is not computed for the same reason; and there is no argument answer_parser, which is a Python
// function.
type mathReward struct {
	FormatScoreCoef float64 `yaml:"format_score_coef" doc:"added if the reply matches, else subtracted; 0 scores accuracy alone"`
	Pattern         string  `yaml:"pattern" doc:"RE2 expression for the whole reply, as in format_reward; default: both blocks"`

	format *format
}

// Validate compiles the expression.
func (m *mathReward) Validate() error {
	m.format = &format{Pattern: m.Pattern, Coef: m.FormatScoreCoef}
	return m.format.Validate()
}

// Requires implements [trinity.Requirer].
func (*mathReward) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkTruth}
}

// Score implements [trinity.RewardFunc].
func (m *mathReward) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truth, ok := truthOf(in)
	if !ok {
		return noTruth(in), nil
	}
	return trinity.NewReward(map[string]float64{
		"accuracy": right(answers["auto"], in.Response, truth), "format_score": m.format.score(in),
	}), nil
}
