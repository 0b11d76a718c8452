package workflow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// agentArgs are what workflows have in common whose rollouts a program makes by itself, at an endpoint of
// the gateway.
type agentArgs struct {
	Steps      bool              `yaml:"steps" doc:"each call of the model is an experience of its own, for algorithms that know steps"`
	Sampling   trinity.Sampling  `yaml:"sampling" enum:"taskset|request" doc:"whose temperature, top_p and the like count"`
	MaxCalls   int               `yaml:"max_calls" range:"[0,)" doc:"calls of the model in a rollout at most; 0 is no limit"`
	Models     map[string]string `yaml:"models" doc:"who answers for the names that the program asks, such as {'*': policy, '*-mini': judge}"`
	Required   string            `yaml:"required_tools" enum:"refuse|auto" doc:"a demanded tool_choice: refuse it, or answer as auto"`
	Idempotent bool              `yaml:"idempotent" doc:"attempt a failed rollout again, since it changes nothing outside"`
	OwnReward  bool              `yaml:"own_reward" doc:"the program's posted reward counts before the reward function that the task names"`

	auxiliary []string // models that the assignment lists, in this order; they are among Models
	asks      string   // how the program asks the policy
}

func defaultAgent() agentArgs {
	return agentArgs{Sampling: trinity.SamplingOfTaskset, MaxCalls: 100, Required: "refuse", asks: "at OPENAI_BASE_URL, with OPENAI_API_KEY"}
}

// Validate checks the arguments.
func (a *agentArgs) Validate() error {
	for pattern, name := range a.Models {
		if _, err := path.Match(pattern, ""); err != nil || name == "" {
			return fmt.Errorf("models: %q: %q: want a pattern such as \"*-mini\", and %s or a name of explorer.auxiliary_models",
				pattern, name, trinity.PolicyAsker)
		}
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (a *agentArgs) Requires() (needs trinity.Requirements) {
	needs.Steps, needs.Program = a.Steps, true
	for _, name := range slices.Compact(slices.Sorted(maps.Values(a.Models))) {
		if name != trinity.PolicyAsker {
			needs.Askers = append(needs.Askers, trinity.AskerSpec{Name: name, Arg: "models"})
		}
	}
	return needs
}

// models returns the models by the names that the program asks for; nil is the policy.
func (a *agentArgs) models(host trinity.Host) (map[string]trinity.Asker, error) {
	byName := map[string]trinity.Asker{}
	for _, spec := range a.Requires().Askers {
		var err error
		if byName[spec.Name], err = host.Asker(spec.Name); err != nil {
			return nil, err
		}
	}
	out := map[string]trinity.Asker{}
	for pattern, name := range a.Models {
		out[pattern] = byName[name]
	}
	return out, nil
}

// run lets a program make the rollout. called and committed, which may be nil, are those of
// [trinity.EndpointOptions]. work returns the last words of the program: they have no effect, because
// they may be the policy's. What the program has to say to the run it posts to the endpoint.
func (a *agentArgs) run(
	ctx context.Context, r *trinity.Rollout, called, committed func(),
	work func(ctx context.Context, e trinity.Endpoint, assignment []byte) (lastWords []byte, err error),
) ([]*trinity.Experience, error) {
	exps, err := a.runGroup(ctx, []*trinity.Rollout{r}, called, committed,
		func(ctx context.Context, endpoints []trinity.Endpoint, assignments []assignment) ([]byte, error) {
			line, err := json.Marshal(assignments[0])
			if err != nil {
				return nil, err
			}
			return work(ctx, endpoints[0], append(line, '\n'))
		})
	if err != nil {
		return nil, err
	}
	return exps[0], nil
}

// runGroup lets a program make the rollouts of a group, each at an endpoint of its own. A rollout without experiences
// failed by the error.
func (a *agentArgs) runGroup(
	ctx context.Context, group []*trinity.Rollout, called, committed func(),
	work func(ctx context.Context, endpoints []trinity.Endpoint, assignments []assignment) (lastWords []byte, err error),
) (exps [][]*trinity.Experience, err error) {
	models, err := a.models(group[0].Host)
	if err != nil {
		return nil, err
	}
	var endpoints []trinity.Endpoint
	var assignments []assignment
	for _, r := range group {
		e, broken := r.Host.Serve(ctx, r.Model, trinity.EndpointOptions{
			Steps: a.Steps, Sampling: a.Sampling, MaxCalls: a.MaxCalls, ToolsAreOptional: a.Required == "auto", Models: models,
			Score: scoring(r), Called: called, Committed: committed,
		})
		if err = broken; err != nil {
			break
		}
		endpoints, assignments = append(endpoints, e), append(assignments, a.assign(r, e))
	}
	var words []byte
	if err == nil {
		words, err = work(ctx, endpoints, assignments)
	}
	recorded, calls, broken := make([]*trinity.Recording, len(endpoints)), 0, error(nil)
	for i, e := range endpoints {
		rec, failed := e.Close()
		if failed != nil {
			broken = failed
			continue
		}
		recorded[i], calls = rec, calls+rec.Calls
	}
	switch {
	case broken != nil:
		return nil, broken
	case len(endpoints) < len(group):
		return nil, err
	}
	return a.gather(ctx, group, recorded, calls, lastLine(words), err)
}

// scoring returns the reward function of a rollout, which its program may ask; nil if there is none.
func scoring(r *trinity.Rollout) func(context.Context, trinity.RewardInput) (trinity.Reward, error) {
	if r.Reward == nil {
		return nil
	}
	return func(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
		in.Task, in.Host = r.Task, r.Host
		if asked, err := r.Task.Messages(""); err == nil && len(in.Messages) == 1 { // the reply alone
			in.Messages = append(asked, in.Messages...)
		}
		in.Truth, in.Prompt = cmp.Or(in.Truth, r.Task.Truth()), cmp.Or(in.Prompt, promptOf(in.Messages))
		score := func(ctx context.Context) (trinity.Reward, error) { return r.Reward.Score(ctx, in) }
		if r.Grade == nil {
			return score(ctx)
		}
		return r.Grade(ctx, score)
	}
}

// promptOf returns the last question of a chat.
func promptOf(messages []trinity.Message) string {
	for _, m := range slices.Backward(messages) {
		if m.Role == "user" {
			return m.Content
		}
	}
	return ""
}

// gather returns the experiences of rollouts, with their rewards. ended is the error of the program, and calls are
// those of all rollouts together.
func (a *agentArgs) gather(
	ctx context.Context, group []*trinity.Rollout, recorded []*trinity.Recording, calls int, lastLine []byte, ended error,
) (exps [][]*trinity.Experience, failed error) {
	exps, some := make([][]*trinity.Experience, len(group)), false
	for i, rec := range recorded {
		err := ended
		if err == nil && rec.Failure == nil {
			err = a.judge(ctx, group[i], rec, lastLine)
		}
		if err = blame(err, rec.CallFailure); rec.Failure != nil {
			err = rec.Failure // the program knows more than its exit status says
		}
		if engine := (*trinity.EngineError)(nil); errors.As(err, &engine) {
			return nil, err
		}
		if err == nil {
			exps[i], some = rec.Experiences, true
		} else if failed == nil {
			failed = a.failed(calls, err)
		}
	}
	if !some {
		return nil, failed
	}
	return exps, failed
}

// blame gives a failure that says nothing but that the program failed the kind of the call that failed before it.
func blame(err error, call *trinity.RolloutError) error {
	if err == nil || call == nil || trinity.KindOf(err, trinity.FailedAgent) != trinity.FailedAgent {
		return err
	}
	if !strings.Contains(err.Error(), call.Error()) { // clients quote it
		err = fmt.Errorf("%w; its last call of a model failed: %w", err, call)
	}
	return &trinity.RolloutError{Kind: call.Kind, Err: err}
}

// failed returns the failure of a rollout. What has called the model may have acted elsewhere, too.
func (a *agentArgs) failed(calls int, err error) error {
	out := &trinity.RolloutError{Kind: trinity.FailedAgent, Err: err}
	if known := (*trinity.RolloutError)(nil); errors.As(err, &known) {
		out.Kind = known.Kind
	}
	out.Final = calls > 0 && !a.Idempotent
	return out
}

// judge gives the rollout its reward: that of the reward function, if the task names one and
// own_reward is not set, else the one that the program has posted. A step that has a reward of its
// own keeps it.
func (a *agentArgs) judge(ctx context.Context, r *trinity.Rollout, rec *trinity.Recording, lastLine []byte) error {
	if len(rec.Experiences) == 0 {
		return fmt.Errorf("the program received no reply of the policy, of %d calls: it must ask %s", rec.Calls, a.asks)
	}
	isScored := func(x *trinity.Experience) bool { return x.Reward.Valid }
	posted := rec.Reward != nil || slices.ContainsFunc(rec.Experiences, isScored)
	switch {
	case posted && r.Reward != nil && !a.OwnReward:
		return errors.New("the program posted a reward, and the task names a reward function, whose reward would count: " +
			"let the program post none, or set own_reward: true in workflow_args")
	case rec.Reward != nil:
		give(rec, *rec.Reward)
	case r.Reward != nil:
		messages := rec.Messages
		if n := len(messages); n > 0 {
			messages = messages[:n-1]
		}
		if err := r.Score(ctx, rec.Last, messages...); err != nil {
			return err
		}
		give(rec, rec.Last.Reward)
	case !posted:
		hint := ""
		if looksLikeAnswer(lastLine) {
			hint = fmt.Sprintf("; its last line is %.80q, but %s", lastLine, wordsHint)
		}
		return errors.New(`nothing scored the rollout: the program posts {"value": 0.5} to base_url + /reward, ` +
			"or the task names a reward function" + hint)
	}
	if r.Reward != nil && !posted && looksLikeAnswer(lastLine) {
		return sayOnce(r.Host, "the last line of a program looks like a reward; the reward is that of the task's reward function: "+
			wordsHint+", with own_reward: true in workflow_args, if the program's is to count")
	}
	return nil
}

// give gives a reward to the experiences that have none.
func give(rec *trinity.Recording, reward trinity.Reward) {
	for _, x := range rec.Experiences {
		if !x.Reward.Valid {
			x.Reward = reward
		}
	}
}

// wordsHint says why a reward among the words of a program has no effect.
const wordsHint = "a reward that a program prints or a service answers does not count, since the policy may have written it: post it " +
	"to base_url + /reward"

// answerLike matches lines by which programs gave rewards before they posted them, also in the
// spellings of languages whose texts are no JSON.
var answerLike = regexp.MustCompile(`^\s*\{\s*(["']?(reward|parts|reason|error)["']?\s*:|\}\s*$)`)

// looksLikeAnswer reports whether a line looks like an answer of a program to the run.
func looksLikeAnswer(line []byte) bool { return answerLike.Match(line) }

// lastLine returns the last line of a text.
func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

// sayOnce prints a line for people, once in a stage.
func sayOnce(host trinity.Host, line string) error {
	_, err := host.Open("workflow says "+line, func(io.Writer) (io.Closer, error) {
		host.Say(line)
		return words{}, nil
	})
	return err
}
