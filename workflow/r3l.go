package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("r3l_workflow",
		"environment_workflow that reflects and retries (R3L). After an episode with less than `good_enough` the policy says from which of its "+
			"replies on it should act otherwise, and how. It plays again from there with its own advice, in an environment with the same "+
			"seed that gets the same actions until then. The rollout returns the first episode, the reflection and the retry, each with a "+
			"reward of its own: the reflection has that of the retry, or that of the first episode if it cannot be read. Training learns "+
			"each reply once. An evaluation plays once. Metrics: retried, retry_gain.",
		func() trinity.Workflow { return &r3l{playArgs: defaultPlay(), GoodEnough: 1} })
}

// r3l plays, reflects and plays again.
//
// Unlike the paper (Reflect-then-Retry, 2026): the advice stays in the retry's context, because the
// recorded log-probabilities are those with the advice.
type r3l struct {
	playArgs   `yaml:",inline"`
	GoodEnough float64 `yaml:"good_enough" doc:"reward of an episode after which there is nothing to reflect on"`
}

const reflectForm = "The episode is over. Its reward is %g. Reflect on your %d replies: which was the first that you should have written " +
	"otherwise, and what should you do instead? Answer with one JSON object: {\"retry_from\": n, \"advice\": \"…\"}, where n is from 1 to " +
	"%[2]d."

const adviceForm = "\n\nAdvice from an earlier attempt: %s"

// Run implements [trinity.Workflow].
func (w *r3l) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	var first *episode
	err := w.with(ctx, r, func(env trinity.Environment, o trinity.Observation) error {
		first = newEpisode(r.Model, o)
		first.forks = true
		return w.turns(ctx, env, first, o)
	})
	if err != nil {
		return nil, err
	}
	exps, err := w.whole(ctx, r, first)
	if err != nil {
		return nil, err
	}
	last := exps[len(exps)-1]
	if r.Task.Eval || len(first.before) == 0 || !last.Reward.Valid || last.Reward.Value >= w.GoodEnough {
		return exps, nil
	}
	reflection, from, advice, err := w.reflect(ctx, first, last.Reward)
	if errors.Is(err, trinity.ErrNoRoom) {
		return exps, nil
	}
	if err != nil {
		return nil, err
	}
	exps[0].Metrics["retried"], exps[0].Metrics["retry_gain"] = 0, 0
	reward := last.Reward
	var retried []*trinity.Experience
	if advice != "" {
		if retried, err = w.retry(ctx, r, first, from, advice); err != nil {
			return nil, err
		}
	}
	if len(retried) > 0 && retried[0].Truncated == trinity.PromptTruncated { // the advice is too long
		retried = nil
	}
	if len(retried) > 0 {
		reward = retried[len(retried)-1].Reward
		exps[0].Metrics["retried"] = 1
		if reward.Valid {
			exps[0].Metrics["retry_gain"] = reward.Value - last.Reward.Value
		}
	}
	reflection.Reward = reward
	return slices.Concat(exps, []*trinity.Experience{reflection}, retried), nil
}

// reflect asks the policy about an episode. It returns the reply from which to retry, counted from 0,
// and the advice, or "" if the answer cannot be read.
func (w *r3l) reflect(
	ctx context.Context, e *episode, got trinity.Reward,
) (reflection *trinity.Experience, from int, advice string, err error) {
	n := len(e.before)
	d := e.dialogue.Fork()
	d.Add(trinity.Message{Role: "user", Content: fmt.Sprintf(reflectForm, got.Value, n)})
	reply, err := d.Reply(ctx)
	if err != nil {
		return nil, 0, "", err
	}
	all := d.Whole() // what it shares with the first episode is learnt there
	reflection = all[len(all)-1]
	var said struct {
		From   int    `json:"retry_from"`
		Advice string `json:"advice"`
	}
	text := reply.Message.Content
	begin, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if begin < 0 || end < begin || json.Unmarshal([]byte(text[begin:end+1]), &said) != nil || said.From < 1 || said.From > n {
		return reflection, 0, "", nil
	}
	return reflection, said.From - 1, said.Advice, nil
}

// retry plays an episode again from a reply on, with advice.
func (w *r3l) retry(ctx context.Context, r *trinity.Rollout, e *episode, from int, advice string) (exps []*trinity.Experience, err error) {
	again := &episode{
		dialogue: e.history[from].dialogue.Fork(), before: slices.Clone(e.before[:from]), tools: e.tools, metrics: map[string]float64{},
	}
	err = w.with(ctx, r, func(env trinity.Environment, seen trinity.Observation) error {
		for i := range from {
			var out trinity.Outcome
			if given := e.history[i].given; given != nil {
				if out, err = w.step(ctx, env, *given); err != nil {
					return err
				}
			} else { // as then, the environment gets nothing
				out.Observation, out.ToolError = e.history[i+1].seen, true
			}
			again.add(out)
			seen = out.Observation
		}
		if !reflect.DeepEqual(seen.Messages, e.history[from].seen.Messages) {
			return w.failed("does not repeat itself", fmt.Errorf("reply %d follows other words with the same seed and actions", from+1))
		}
		seen.Messages = advised(seen.Messages, advice)
		return w.turns(ctx, env, again, seen)
	})
	if err != nil {
		return nil, err
	}
	return w.whole(ctx, r, again)
}

// advised adds advice to what the policy sees: to the last words of the user or the environment.
func advised(messages []trinity.Message, advice string) []trinity.Message {
	messages, text := slices.Clone(messages), fmt.Sprintf(adviceForm, advice)
	if n := len(messages); n > 0 && messages[n-1].Role == "user" {
		messages[n-1].Content += text
		return messages
	}
	return append(messages, trinity.Message{Role: "user", Content: strings.TrimSpace(text)})
}
