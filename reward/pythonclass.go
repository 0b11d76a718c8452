package reward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("python",
		"A function or a class of yours in Python. default_reward_fn_type: my.module.right names it as well; reward_fn_args are then its "+
			"arguments. It takes, by the names of its parameters, completion (the reply), columns of the row, and messages, prompt, "+
			"response, truth, truncated, completion_ids, task, eval, step, run and row. Reward functions of TRL and classes of Trinity-RFT "+
			"(RewardFn) run as they are. It returns a number, a dict of parts, or None for a reply that cannot be scored; an exception is a "+
			"failed reward. Neither counts as reward 0. It may be async. The section python of the configuration says which Python runs "+
			"it, with the rights of the run; what it prints goes to plugins.log. Parts: those of the dict.",
		func() trinity.RewardFunc {
			return &pythonClass{Timeout: 60, Python: bridge.DefaultPlugins()}
		})
	registry.Rewards.Elsewhere("python", "class")
}

// pythonClass asks a class or a function in a process of Python.
type pythonClass struct {
	Class   string         `yaml:"class" required:"name a function, such as my.module.right" doc:"package.module.Name, or file.py:Name"`
	Args    map[string]any `yaml:"args" doc:"arguments of the class, or of the function beside those of a reply"`
	Timeout float64        `yaml:"timeout" range:"(0,inf]" doc:"seconds for one reply, besides those for imports (python.start_timeout)"`
	Python  bridge.Plugins `yaml:"python" doc:"the section python, if it is another for this function"`
}

// Validate checks that the function exists and takes the arguments.
func (p *pythonClass) Validate() error {
	if p.Class == "" {
		return nil // the tag required reports it
	}
	if p.Args == nil {
		p.Args = map[string]any{}
	}
	_, err := p.Python.Describe("reward", p.Class, p.Args)
	key := "class"
	if told := (*process.ToldError)(nil); errors.As(err, &told) && told.Kind != "" {
		key = told.Kind // the argument
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// Score implements [trinity.RewardFunc].
func (p *pythonClass) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	if in.Host == nil {
		return trinity.Reward{}, fmt.Errorf("%s: only a run can start Python", p.Class)
	}
	reply, err := replyOf(in)
	if err != nil {
		return trinity.Reward{}, err
	}
	question := bridge.Question{
		Do: "reward", Name: p.Class, Body: map[string]any{"args": p.Args, "reply": reply}, Timeout: p.Timeout,
	}
	var text struct{ Answer json.RawMessage }
	if err = p.Python.Ask(ctx, in.Host, question, &text); err == nil {
		return answerOf(p.Class, text.Answer)
	}
	err = fmt.Errorf("%s: %w", p.Class, err)
	if told := (*process.ToldError)(nil); errors.As(err, &told) && told.Kind != "" {
		err = &trinity.RolloutError{Kind: trinity.FailureKind(told.Kind), Err: err}
	}
	return trinity.Reward{}, err
}

// replyOf returns what a function in Python may know of a reply.
func replyOf(in trinity.RewardInput) (map[string]any, error) {
	messages, err := chat(in)
	if err != nil {
		return nil, err
	}
	reply := map[string]any{
		"messages": messages, "prompt": in.Prompt, "response": in.Opening + in.Response, "truth": in.Truth,
	}
	if in.Task != nil {
		reply["task"], reply["eval"], reply["row"] = in.Task.ID, in.Task.Eval, in.Task.Row
	}
	if e := in.Experience; e != nil {
		reply["truncated"], reply["step"], reply["run"] = e.Truncated == trinity.ResponseTruncated, e.ID.Step, e.ID.Run
		reply["completion_ids"] = e.Tokens[e.PromptLen:]
	}
	return reply, nil
}
