package workflow

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

func init() {
	register("thinking_budget_workflow",
		"One turn with at most `thinking_token_budget` tokens of thinking. If the thinking has not ended by then, the workflow writes "+
			"`reasoning_end_str`, which training does not learn, and the policy goes on with its answer. The chat is a list at "+
			"format.prompt_key, format.messages_key or in the column messages, else the task's question. The task must name a reward function. "+
			"Metric: thinking_cut.",
		func() trinity.Workflow { return &thinkingBudget{Budget: -1, End: "</think>"} })
}

// thinkingBudget bounds how long the policy thinks.
type thinkingBudget struct {
	Budget int    `yaml:"thinking_token_budget" range:"[0,)" doc:"tokens of thinking at most; 0 does not let the policy think"`
	End    string `yaml:"reasoning_end_str" required:"write the text that ends the thinking" doc:"text that ends the thinking"`
}

// Requires implements [trinity.Requirer].
func (*thinkingBudget) Requires() trinity.Requirements {
	return trinity.Requirements{Reward: true, CheckTask: func(t *trinity.Task) error {
		_, err := chatOf(t, "")
		return err
	}}
}

// Run implements [trinity.Workflow].
func (w *thinkingBudget) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	messages, err := chatOf(r.Task, "")
	if err != nil {
		return nil, err
	}
	e, err := w.reply(ctx, r, messages)
	if err != nil {
		return nil, err
	}
	e.Prompt = messages[len(messages)-1].Content
	return []*trinity.Experience{e}, r.Score(ctx, e, messages...)
}

// reply samples a reply. It samples the answer apart if the thinking uses the budget up.
func (w *thinkingBudget) reply(ctx context.Context, r *trinity.Rollout, messages []trinity.Message) (*trinity.Experience, error) {
	m := r.Model
	tools, err := r.Task.Tools()
	if err != nil {
		return nil, err
	}
	prompt, err := m.Renderer.Render(messages, tools, true)
	if err != nil {
		return nil, err
	}
	end, most := prefixTokens(m.Renderer, w.End), m.Params.MaxTokens
	if w.Budget == 0 {
		e, err := m.Generate(ctx, slices.Concat(prompt, end))
		if err == nil {
			e.Response = w.End + e.Response
			e.Metrics = map[string]float64{"thinking_cut": 1}
		}
		return e, err
	}
	budget := w.Budget
	if most > 0 {
		budget = min(budget, most)
	}
	e, err := m.Generate(ctx, prompt, limit(budget))
	if err != nil || e.Truncated == trinity.PromptTruncated {
		return e, err
	}
	e.Metrics = map[string]float64{"thinking_cut": 0}
	if e.Truncated == trinity.NotTruncated || budget == most || e.ResponseLen() < budget {
		return e, nil
	}
	var between []int32
	if !strings.Contains(e.Response, w.End) {
		between = end
		e.Metrics["thinking_cut"] = 1
	}
	if most > 0 {
		most -= budget
	}
	if err := m.Continue(ctx, e, between, limit(most)); err != nil && !errors.Is(err, trinity.ErrNoRoom) {
		return nil, err
	}
	return e, nil
}

// limit bounds the tokens of a call; 0 is no limit.
func limit(tokens int) trinity.CallOption {
	return func(p *trinity.SamplingParams) { p.MaxTokens = tokens }
}
