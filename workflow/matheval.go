package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
)

// boxedRequest follows the question where the system prompt does not ask for a box.
const boxedRequest = "\nReason step by step, and put the final answer in \\boxed{}."

func init() {
	register("math_eval_workflow",
		"One turn of mathematics as in the evaluations of Qwen2.5-Math: the user's message has the question and asks for the answer in "+
			"\\boxed{}. `temperature` and `top_p` replace the taskset's, as in Trinity-RFT. The reward is the part accuracy of the reward "+
			"function alone. Default reward: math_boxed_reward.",
		func() trinity.Workflow { return &mathEval{Temperature: 0.6, TopP: 0.8} })
}

// mathEval evaluates a model in mathematics.
type mathEval struct {
	Temperature float32 `yaml:"temperature" range:"[0,inf]" doc:"sampling temperature; 0 is greedy"`
	TopP        float32 `yaml:"top_p" range:"(0,1]" doc:"nucleus"`
}

// Requires implements [trinity.Requirer].
func (w *mathEval) Requires() trinity.Requirements {
	return trinity.Requirements{Reward: true, DefaultReward: "math_boxed_reward", TopP: w.TopP, CheckTask: checkPrompt}
}

// Run implements [trinity.Workflow].
func (w *mathEval) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	messages, err := r.Task.Messages("You are a helpful assistant.")
	if err != nil {
		return nil, err
	}
	last := &messages[len(messages)-1]
	question := last.Content
	last.Content += boxedRequest
	r.Model.Params.Temperature, r.Model.Params.TopP = w.Temperature, w.TopP
	e, err := reply(ctx, r.Model, r.Task, messages)
	if err != nil {
		return nil, err
	}
	e.Prompt = question
	err = r.Score(ctx, e, messages...)
	if accuracy, ok := e.Reward.Parts["accuracy"]; ok && e.Reward.Valid {
		e.Reward = trinity.NewReward(map[string]float64{"accuracy": accuracy})
	}
	return []*trinity.Experience{e}, err
}
