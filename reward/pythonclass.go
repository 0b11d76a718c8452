package reward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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

	takesGroup bool
	columns    []string // without which it cannot score
}

// Validate checks that the function exists and takes the arguments.
func (p *pythonClass) Validate() error {
	is, err := p.Python.Check("reward", p.Class, &p.Args)
	p.takesGroup, p.columns = is.TakesGroup, is.Needs
	return err
}

// Requires implements [trinity.Requirer].
func (p *pythonClass) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: func(t *trinity.Task) error {
		for _, name := range p.columns {
			if _, ok := t.Row[name]; !ok {
				return fmt.Errorf("%s takes %s, which is no column (%s) and nothing that a reward function is given (`trinity explain reward_fn "+
					"python` lists that)", p.Class, name, strings.Join(slices.Sorted(maps.Keys(t.Row)), ", "))
			}
		}
		return nil
	}}
}

// Form returns the plug-in of the function's form.
func (p *pythonClass) Form() trinity.RewardFunc {
	if p.takesGroup {
		return pythonGroup{p}
	}
	return p
}

// pythonGroup is a function that scores the replies of a group together.
type pythonGroup struct{ of *pythonClass }

// ScoreGroup implements [trinity.GroupReward].
func (p pythonGroup) ScoreGroup(ctx context.Context, in []trinity.RewardInput) ([]trinity.Reward, error) {
	return p.of.score(ctx, in)
}

// Requires implements [trinity.Requirer].
func (p pythonGroup) Requires() trinity.Requirements { return p.of.Requires() }

// Score implements [trinity.RewardFunc].
func (p pythonGroup) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	return p.of.Score(ctx, in)
}

// Score implements [trinity.RewardFunc].
func (p *pythonClass) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	rewards, err := p.score(ctx, []trinity.RewardInput{in})
	if err != nil {
		return trinity.Reward{}, err
	}
	return rewards[0], nil
}

// score asks for the rewards of replies, of which only a function that scores groups takes more than one.
func (p *pythonClass) score(ctx context.Context, in []trinity.RewardInput) ([]trinity.Reward, error) {
	host := in[0].Host
	if host == nil {
		return nil, fmt.Errorf("%s: only a run can start Python", p.Class)
	}
	replies, rewards := make([]map[string]any, len(in)), make([]trinity.Reward, len(in))
	for i, reply := range in {
		var err error
		if replies[i], err = replyOf(reply); err != nil {
			return nil, err
		}
	}
	question := bridge.Question{
		Do: "reward", Name: p.Class, Body: map[string]any{"args": p.Args, "replies": replies}, Timeout: p.Timeout,
	}
	var out struct{ Answers []json.RawMessage }
	err := p.Python.Ask(ctx, host, question, &out)
	if err == nil && len(out.Answers) != len(in) {
		err = fmt.Errorf("%d answers to %d replies", len(out.Answers), len(in))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", p.Class, err)
		if told := (*process.ToldError)(nil); errors.As(err, &told) && told.Kind != "" {
			err = &trinity.RolloutError{Kind: trinity.FailureKind(told.Kind), Err: err}
		} else if errors.Is(err, context.DeadlineExceeded) {
			err = &trinity.RolloutError{Kind: trinity.FailedTimeout, Err: err}
		}
		return nil, err
	}
	for i, text := range out.Answers {
		if rewards[i], err = answerOf(p.Class, text); err != nil {
			return nil, err
		}
	}
	return rewards, nil
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
