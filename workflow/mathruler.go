package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
)

func init() {
	register("math_ruler_workflow",
		"math_workflow whose reward is a score that a model gives each reply of the group by comparing all of them, as in ruler_reward. The "+
			"task's reward function is only watched. Default: math_reward. Metrics: gold_reward, which is its value, its parts, and "+
			"judge_success. If the judge's answer cannot be read, the group has no valid reward.",
		func() trinity.Workflow { return &mathRuler{judgedArgs: defaultJudged()} })
}

// mathRuler asks one mathematical question and lets a model compare the replies of a group.
//
// Unlike Trinity-RFT: without a readable answer there is no reward, while there it is 0.
type mathRuler struct {
	judgedArgs `yaml:",inline"`
}

// Validate builds the comparison.
func (w *mathRuler) Validate() error {
	return w.build("ruler_reward", map[string]any{"rubric": rulerRubric})
}

// rulerRubric is what a judge of solutions reads first.
const rulerRubric = "You compare solutions of a mathematical problem. A solution with the right answer scores higher than one with a " +
	"wrong answer. A solution should reason between <think> and </think>, and give its answer between <answer> and </answer>. Keep your own " +
	"reasoning brief."

// Requires implements [trinity.Requirer].
func (w *mathRuler) Requires() trinity.Requirements {
	return trinity.Requirements{
		Reward: true, DefaultReward: "math_reward", CheckTask: checkPrompt, Askers: trinity.RequirementsOf(w.by).Askers,
	}
}

// Run implements [trinity.Workflow].
func (*mathRuler) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	return ask(ctx, r, mathSystem)
}

// Compare implements [trinity.GroupWorkflow].
func (w *mathRuler) Compare(ctx context.Context, r *trinity.Rollout, g trinity.Group) error {
	return w.compare(ctx, r, g, mathSystem)
}
