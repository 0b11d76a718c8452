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
		"One turn of mathematics with the answer in \\boxed{}: a system prompt that asks for it, unless the task has one of its own, and the question. "+
			"with_think asks for a <think> block first. use_base writes the prompt as plain text, for models without a chat template, and stops where a next question would begin. "+
			"Default reward: math_boxed_reward, which takes with_think and format_score_coef from here.",
		func() trinity.Workflow { return &MathBoxed{} })
}

// MathBoxed asks one question of mathematics and wants the answer in a box.
type MathBoxed struct {
	WithThink       bool     `yaml:"with_think" doc:"ask for a <think> block before the answer, and score it"`
	UseBase         bool     `yaml:"use_base" doc:"plain text in place of the chat template"`
	FormatScoreCoef *float64 `yaml:"format_score_coef" doc:"handed to the reward; null leaves the reward's own, which is 0.1"`

	reward trinity.RewardFunc
}

// formatted is a reward that can be told which format to expect.
type formatted interface {
	WithFormat(withThink bool, coef *float64) trinity.RewardFunc
}

// DefaultReward implements trinity.RewardUser.
func (*MathBoxed) DefaultReward() string { return "math_boxed_reward" }

// WithReward implements trinity.RewardUser.
func (w *MathBoxed) WithReward(r trinity.RewardFunc) trinity.Workflow {
	c := *w
	if f, ok := r.(formatted); ok {
		r = f.WithFormat(w.WithThink, w.FormatScoreCoef)
	}
	c.reward = r
	return &c
}

// CheckTask implements trinity.TaskChecker.
func (*MathBoxed) CheckTask(t *trinity.Task) error { return wantPrompt(t) }

// Run implements trinity.Workflow.
func (w *MathBoxed) Run(ctx context.Context, task *trinity.Task, m *trinity.Model) ([]*trinity.Experience, error) {
	system := task.System()
	switch {
	case system != "":
	case w.WithThink:
		system = boxedThinkSystem
	default:
		system = boxedSystem
	}
	if w.UseBase {
		return complete(ctx, task, m, system, w.reward)
	}
	return ask(ctx, task, m, system, w.reward)
}

// nextQuestion is where a base model that goes on by itself is stopped.
const nextQuestion = "\nUser:"

// complete puts the question as plain text.
func complete(ctx context.Context, task *trinity.Task, m *trinity.Model, system string, reward trinity.RewardFunc) ([]*trinity.Experience, error) {
	question, err := task.Prompt()
	if err != nil {
		return nil, err
	}
	m.Params.Stop = append(slices.Clone(m.Params.Stop), nextQuestion)
	prefix := task.Format.ReplyPrefix
	e, err := m.Complete(ctx, system+nextQuestion+" "+question+"\nAssistant:"+prefix)
	if err != nil {
		return nil, err
	}
	e.Prompt, e.Response = question, prefix+e.Response
	score(ctx, task, e, reward)
	return []*trinity.Experience{e}, nil
}
