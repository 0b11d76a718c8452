package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
)

func init() {
	register("simple_mm_workflow",
		"One turn of mathematics with images: as math_boxed_workflow, for rows with images at format.image_key. Each <image> in the texts of "+
			"the user becomes the row's next image; images left over come first. A row with too few images fails its rollouts. Every workflow "+
			"that asks the task's question shows images in this way, with a system prompt of its own.",
		func() trinity.Workflow { return &simpleMM{} })
}

// simpleMM asks one question about images.
type simpleMM struct {
	WithThink       bool     `yaml:"with_think" doc:"ask for a <think> block before the answer, and score it"`
	FormatScoreCoef *float64 `yaml:"format_score_coef" doc:"passed to the reward; null keeps the reward's own, 0.1"`
}

// Requires implements [trinity.Requirer].
func (*simpleMM) Requires() trinity.Requirements {
	return trinity.Requirements{Reward: true, DefaultReward: "math_boxed_reward", CheckTask: checkPrompt}
}

// Run implements [trinity.Workflow].
func (w *simpleMM) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	system := boxedSystem
	if w.WithThink {
		system = boxedThinkSystem
	}
	return ask(ctx, withFormat(r, w.WithThink, w.FormatScoreCoef), system)
}
