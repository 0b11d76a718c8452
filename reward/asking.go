package reward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
)

// askArgs are how a reward function asks a model. They are part of the functions that do so.
type askArgs struct {
	Judge       string  `yaml:"judge" required:"name a model of explorer.auxiliary_models, or policy" doc:"model that judges"`
	Temperature float32 `yaml:"temperature" range:"[0,inf]" doc:"at which it answers"`
	MaxTokens   int     `yaml:"max_tokens" range:"[0,)" doc:"tokens of an answer; 0 is the model's own limit"`
	Tries       int     `yaml:"tries" range:"[1,)" doc:"questions at most until an answer can be read"`
	Workers     int     `yaml:"workers" range:"[1,)" doc:"questions at once, of one group"`

	topP   *float32             // nil is the model's own
	seed   *uint64              // nil is that of the run
	server *trinity.AskerServer // nil for a model that the run knows
}

func defaultAsking() askArgs { return askArgs{MaxTokens: 1024, Tries: 3, Workers: 8} }

// Requires implements [trinity.Requirer].
func (a *askArgs) Requires() trinity.Requirements {
	return trinity.Requirements{Askers: []trinity.AskerSpec{{Name: a.Judge, Arg: "judge", Server: a.server}}}
}

// ask asks the judge a question under a system prompt.
func (a *askArgs) ask(
	ctx context.Context, host trinity.Host, system, question string, read func(object json.RawMessage) error, about ...*trinity.Experience,
) error {
	return a.askAll(ctx, host, []trinity.Message{{Role: "system", Content: system}, {Role: "user", Content: question}}, read, about...)
}

// askAll asks the judge until read can read the last JSON object of an answer. It notes the version of
// the policy's weights in the experiences if the judge is the policy.
func (a *askArgs) askAll(
	ctx context.Context, host trinity.Host, messages []trinity.Message, read func(object json.RawMessage) error, about ...*trinity.Experience,
) error {
	if host == nil {
		return fmt.Errorf("model %s: only a run can ask it", a.Judge)
	}
	judge, err := host.Asker(a.Judge)
	if err != nil {
		return err
	}
	options := trinity.AskOptions{Temperature: &a.Temperature, TopP: a.topP, MaxTokens: a.MaxTokens, Seed: a.seed}
	options.Keep = func(answer trinity.Answer) error {
		object, err := lastObject(answer.Message.Content)
		if err != nil {
			return err
		}
		return read(object)
	}
	for try := 1; ; try++ {
		answer, err := judge.Ask(ctx, messages, options)
		if err != nil {
			return err
		}
		if err = options.Keep(answer); err == nil {
			for _, e := range about {
				a.note(e, answer.Version)
			}
			return nil
		}
		if try == a.Tries {
			return trinity.NoAnswer(a.Judge, trinity.AskUnreadable, fmt.Errorf("%w: %s", err, retry.OneLine([]byte(answer.Message.Content))))
		}
	}
}

// note writes which version of the policy judged an experience.
func (a *askArgs) note(e *trinity.Experience, version int64) {
	if a.Judge != trinity.PolicyAsker || e == nil {
		return
	}
	info := map[string]any{"judge_version": version}
	for k, v := range e.Info {
		info[k] = v
	}
	e.Info = info
}

// lastObject returns the last JSON object in an answer that is in no other one.
func lastObject(text string) (object json.RawMessage, err error) {
	for at := 0; at < len(text); {
		next := strings.IndexByte(text[at:], '{')
		if next < 0 {
			break
		}
		at += next
		d := json.NewDecoder(strings.NewReader(text[at:]))
		var found json.RawMessage
		if d.Decode(&found) != nil {
			at++
			continue
		}
		object = found
		at += int(d.InputOffset())
	}
	if object == nil {
		return nil, errors.New("the answer has no JSON object")
	}
	return object, nil
}

// order draws an order of n things for a group. It follows from the seed, the step and the task.
func order(seed int, in trinity.RewardInput, n int) []int {
	h := fnv.New64a()
	if in.Experience != nil {
		fmt.Fprintf(h, "%d/%s", in.Experience.ID.Step, in.Experience.ID.Task)
	}
	return rand.New(rand.NewPCG(uint64(seed), h.Sum64())).Perm(n)
}

// transcript writes messages for a judge.
func transcript(messages []trinity.Message) string {
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "[%s]\n%s\n", m.Role, strings.TrimSpace(m.Content))
		if len(m.ToolCalls) > 0 {
			fmt.Fprintf(&b, "calls: %s\n", m.ToolCalls)
		}
	}
	return b.String()
}

// unscored returns the reward of a reply that the judge did not score. A failed engine is the error.
func unscored(err error) (trinity.Reward, error) {
	if engine := (*trinity.EngineError)(nil); errors.As(err, &engine) {
		return trinity.Reward{}, err
	}
	return unscoredBy(trinity.KindOf(err, trinity.FailedReward), err.Error()), nil
}

// unscoredBy returns the reward of a reply on which a reward function failed, while it may score others
// of the group. With a kind, the rollout counts as a failed one.
func unscoredBy(kind trinity.FailureKind, reason string) trinity.Reward {
	return trinity.Reward{Reason: reason, Kind: kind}
}

// scoreOne scores a reply without its group.
func scoreOne(ctx context.Context, reward trinity.GroupReward, in trinity.RewardInput) (trinity.Reward, error) {
	rewards, err := reward.ScoreGroup(ctx, []trinity.RewardInput{in})
	if err != nil {
		return trinity.Reward{}, err
	}
	return rewards[0], nil
}
