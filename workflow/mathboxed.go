package workflow

import (
	"context"
	"slices"

	"github.com/trinity-go/trinity"
)

const (
	boxedSystem      = `Solve the problem step by step and put the final answer in \boxed{}.`
	boxedThinkSystem = `Solve the problem. First write your reasoning between <think> and </think>; after it put the final answer in \boxed{}.`
)

func init() {
	register("math_boxed_workflow",
		"One turn of mathematics with the answer in \\boxed{}: the task's system prompt (default: one that asks for the box) and the question. "+
			"with_think asks for a <think> block first. use_base writes the prompt as plain text, for models without a chat template, and stops "+
			"where a next question would begin. Default reward: math_boxed_reward, which takes with_think and format_score_coef from here.",
		func() trinity.Workflow { return &MathBoxed{} })
}

// MathBoxed asks one mathematical question and wants the answer in a box.
type MathBoxed struct {
	WithThink       bool     `yaml:"with_think" doc:"ask for a <think> block before the answer, and score it"`
	UseBase         bool     `yaml:"use_base" doc:"plain text instead of the chat template"`
	FormatScoreCoef *float64 `yaml:"format_score_coef" doc:"passed to the reward; null keeps the reward's own, 0.1"`
}

// formatted is a reward function that expects a format, which the workflow sets.
type formatted interface {
	WithFormat(withThink bool, coef *float64) trinity.RewardFunc
}

// Requires implements [trinity.Requirer].
func (*MathBoxed) Requires() trinity.Requirements {
	return trinity.Requirements{Reward: true, DefaultReward: "math_boxed_reward", CheckTask: checkPrompt}
}

// Run implements [trinity.Workflow].
func (w *MathBoxed) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	r = withFormat(r, w.WithThink, w.FormatScoreCoef)
	system := boxedSystem
	if w.WithThink {
		system = boxedThinkSystem
	}
	if w.UseBase {
		return complete(ctx, r, system)
	}
	return ask(ctx, r, system)
}

// withFormat returns a rollout whose reward function knows the format that the workflow asks for.
func withFormat(r *trinity.Rollout, withThink bool, coef *float64) *trinity.Rollout {
	f, ok := r.Reward.(formatted)
	if !ok {
		return r
	}
	told := *r
	told.Reward = f.WithFormat(withThink, coef)
	return &told
}

// nextQuestion stops a base model before it continues with a question of its own.
const nextQuestion = "\nUser:"

// complete asks the task's question as plain text, scores the reply with r.Reward and returns it.
func complete(ctx context.Context, r *trinity.Rollout, system string) ([]*trinity.Experience, error) {
	messages, err := r.Task.Messages(system)
	if err != nil {
		return nil, err
	}
	system, text, prefix := messages[0].Content, messages[1].Content, r.Task.Format.ReplyPrefix
	m := r.Model
	m.Params.Stop = append(slices.Clone(m.Params.Stop), nextQuestion)
	e, err := m.Complete(ctx, system+nextQuestion+" "+text+"\nAssistant:"+prefix)
	if err != nil {
		return nil, err
	}
	e.Prompt, e.Response = text, prefix+e.Response
	return []*trinity.Experience{e}, r.Score(ctx, e, messages...)
}
