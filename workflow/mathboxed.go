package workflow

import (
	"context"
	"fmt"
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
		func() trinity.Workflow { return &mathBoxed{} })
}

// mathBoxed asks one mathematical question and wants the answer in a box.
type mathBoxed struct {
	WithThink       bool     `yaml:"with_think" doc:"ask for a <think> block before the answer, and score it"`
	UseBase         bool     `yaml:"use_base" doc:"plain text instead of the chat template"`
	FormatScoreCoef *float64 `yaml:"format_score_coef" doc:"passed to the reward; null keeps the reward's own, 0.1"`
}

// formatted is a reward function that expects a format, which the workflow sets.
type formatted interface {
	WithFormat(withThink bool, coef *float64) trinity.RewardFunc
}

// Requires implements [trinity.Requirer].
func (w *mathBoxed) Requires() trinity.Requirements {
	needs := trinity.Requirements{Reward: true, DefaultReward: "math_boxed_reward", CheckTask: checkPrompt}
	if w.UseBase {
		needs.CheckTask = func(t *trinity.Task) error {
			messages, err := t.Messages("")
			if err == nil {
				_, err = plainText(messages)
			}
			return err
		}
	}
	return needs
}

// Run implements [trinity.Workflow].
func (w *mathBoxed) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
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
	text, err := plainText(messages)
	if err != nil {
		return nil, err
	}
	m, prefix := r.Model, r.Task.Format.ReplyPrefix
	m.Params.Stop = append(slices.Clone(m.Params.Stop), nextQuestion)
	e, err := m.Complete(ctx, text+"\nAssistant:"+prefix)
	if err != nil {
		return nil, err
	}
	e.Prompt, e.Response = messages[len(messages)-1].Content, prefix+e.Response
	return []*trinity.Experience{e}, r.Score(ctx, e, messages...)
}

// plainText returns a chat as a base model reads it.
func plainText(messages []trinity.Message) (string, error) {
	text := ""
	for _, m := range messages {
		switch m.Role {
		case "system":
			text += m.Content
		case "user":
			text += nextQuestion + " " + m.Content
		case "assistant":
			text += "\nAssistant: " + m.Content
		default:
			return "", fmt.Errorf("use_base writes a chat of user and assistant as plain text, and the row has a message of role %q", m.Role)
		}
	}
	return text, nil
}
