package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/registry"
)

// judgedArgs are what workflows have in common whose reward is a model's verdict. They are part of them.
type judgedArgs struct {
	Judge string `yaml:"judge" doc:"model that judges: a name in explorer.auxiliary_models, its place there (0 is the first), or policy"`

	by trinity.GroupReward
}

func defaultJudged() judgedArgs { return judgedArgs{Judge: "0"} }

// build builds the reward function that asks the judge.
func (j *judgedArgs) build(name string, args map[string]any) error {
	fn, err := registry.Rewards.Build(name, map[string]any{"judge": j.Judge}, args)
	if err == nil {
		j.by = fn.(trinity.GroupReward)
	}
	return err
}

// needs returns what a workflow requires that asks the judge itself.
func (j *judgedArgs) needs() trinity.Requirements {
	return trinity.Requirements{Askers: []trinity.AskerSpec{{Name: j.Judge, Arg: "judge"}}}
}

// tries are the questions at most until an answer can be read.
const tries = 3

// ask asks the judge until read can read an answer.
func (j *judgedArgs) ask(ctx context.Context, host trinity.Host, system, question string, read func(answer string) error) error {
	judge, err := host.Asker(j.Judge)
	if err != nil {
		return err
	}
	messages := []trinity.Message{{Role: "system", Content: system}, {Role: "user", Content: question}}
	options := trinity.AskOptions{Temperature: new(float32(0)), Keep: func(a trinity.Answer) error { return read(a.Message.Content) }}
	for try := 1; ; try++ {
		answer, err := judge.Ask(ctx, messages, options)
		if err != nil {
			return err
		}
		if err = options.Keep(answer); err == nil {
			return nil
		}
		if try == tries {
			return trinity.NoAnswer(j.Judge, trinity.AskUnreadable, fmt.Errorf("%w: %s", err, retry.OneLine([]byte(answer.Message.Content))))
		}
	}
}

const answerSystem = "You compare an answer with the reference answer to a question. First find what the question asks for, and which " +
	"facts of the reference answer it needs. The answer is right if it has all of these facts with the same meaning; other words and " +
	"further facts do not matter. Write true if the answer is right, else false, and nothing else."

// isRight reports whether the judge finds that an answer says what the reference answer says. An empty
// one does not.
func (j *judgedArgs) isRight(ctx context.Context, host trinity.Host, question, truth, answer string) (right bool, err error) {
	if strings.TrimSpace(answer) == "" {
		return false, nil
	}
	err = j.ask(ctx, host, answerSystem, fmt.Sprintf("Question: %s\nReference answer: %s\nAnswer: %s", question, truth, answer),
		func(verdict string) error {
			verdict = strings.ToLower(verdict)
			yes, no := strings.LastIndex(verdict, "true"), strings.LastIndex(verdict, "false")
			if right = yes > no; yes == no {
				return errors.New("the verdict is neither true nor false")
			}
			return nil
		})
	return right, err
}

// unjudged returns the reward of a reply that the judge did not score. A failed engine is the error.
func unjudged(err error) (trinity.Reward, error) {
	if engine := (*trinity.EngineError)(nil); errors.As(err, &engine) {
		return trinity.Reward{}, err
	}
	return trinity.InvalidReward(err.Error()), nil
}

// verdict replaces the reward of an experience by the judge's. What the task's own reward function
// said is the metric gold_reward, with its parts.
func verdict(e *trinity.Experience, reward trinity.Reward) {
	if e.Metrics == nil {
		e.Metrics = map[string]float64{}
	}
	if e.Reward.Valid {
		e.Metrics["gold_reward"] = e.Reward.Value
		for name, v := range e.Reward.Parts {
			e.Metrics[name] = v
		}
	}
	e.Metrics["judge_success"] = 0
	if reward.Valid {
		e.Metrics["judge_success"] = 1
	}
	e.Reward = reward
}

// inputOf returns what a reward function of the workflow's own is to score. Only the conversation
// counts: the judge does not read the reference answer.
func inputOf(r *trinity.Rollout, e *trinity.Experience, messages []trinity.Message) trinity.RewardInput {
	messages = append(messages[:len(messages):len(messages)], trinity.Message{Role: "assistant", Content: e.Response})
	return trinity.RewardInput{Task: r.Task, Messages: messages, Prompt: e.Prompt, Response: e.Response, Experience: e, Host: r.Host}
}

// compare lets the judge score the replies of a group, which answer the task's question under a system
// prompt.
func (j *judgedArgs) compare(ctx context.Context, r *trinity.Rollout, g trinity.Group, system string) error {
	messages, err := r.Task.Messages(system)
	if err != nil {
		return err
	}
	var replies trinity.Group
	var in []trinity.RewardInput
	for _, e := range g {
		if e.Truncated != trinity.PromptTruncated {
			replies, in = append(replies, e), append(in, inputOf(r, e, messages))
		}
	}
	if len(in) == 0 {
		return nil
	}
	rewards, err := j.by.ScoreGroup(ctx, in)
	if err != nil {
		return err
	}
	for i, e := range replies {
		verdict(e, rewards[i])
	}
	return nil
}
