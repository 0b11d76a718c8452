package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/wire/score"
)

// Agent is what workflows have in common whose rollouts a program makes by itself, at an endpoint of
// the gateway.
type Agent struct {
	Steps      bool              `yaml:"steps" doc:"each call of the model is an experience of its own, for algorithms that know steps"`
	Sampling   trinity.Sampling  `yaml:"sampling" doc:"whose temperature, top_p and the like count: taskset, or request for the program's"`
	MaxCalls   int               `yaml:"max_calls" doc:"calls of the model in a rollout at most; 0 is no limit"`
	Models     map[string]string `yaml:"models" doc:"who answers for the names that the program asks, such as {'*': policy, '*-mini': judge}"`
	Idempotent bool              `yaml:"idempotent" doc:"attempt a failed rollout again, since it changes nothing outside"`
}

func defaultAgent() Agent { return Agent{Sampling: trinity.SamplingOfTaskset, MaxCalls: 100} }

// Validate checks the arguments.
func (a *Agent) Validate() error {
	switch {
	case a.Sampling != trinity.SamplingOfTaskset && a.Sampling != trinity.SamplingOfRequest:
		return fmt.Errorf("sampling: want %s or %s, got %q", trinity.SamplingOfTaskset, trinity.SamplingOfRequest, a.Sampling)
	case a.MaxCalls < 0:
		return fmt.Errorf("max_calls: must not be negative, got %d", a.MaxCalls)
	}
	for pattern, name := range a.Models {
		if _, err := path.Match(pattern, ""); err != nil || name == "" {
			return fmt.Errorf("models: %q: %q: want a pattern such as \"*-mini\", and %s or a name of explorer.auxiliary_models",
				pattern, name, trinity.PolicyAsker)
		}
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (a *Agent) Requires() (needs trinity.Requirements) {
	needs.Steps, needs.Program = a.Steps, true
	for _, name := range slices.Compact(slices.Sorted(maps.Values(a.Models))) {
		if name != trinity.PolicyAsker {
			needs.Askers = append(needs.Askers, trinity.AskerSpec{Name: name, Arg: "models"})
		}
	}
	return needs
}

// models returns the models by the names that the program asks for; nil is the policy.
func (a *Agent) models(host trinity.Host) (map[string]trinity.Asker, error) {
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

// assignment is what the program reads: a line of JSON.
type assignment struct {
	Task    string         `json:"task"`
	Eval    bool           `json:"eval"`
	Prompt  string         `json:"prompt,omitempty"`
	Truth   string         `json:"truth,omitempty"`
	Row     map[string]any `json:"row"`
	Seed    uint64         `json:"seed"`
	BaseURL string         `json:"base_url"`
	APIKey  string         `json:"api_key"`
}

// assign returns the assignment of a rollout.
func assign(r *trinity.Rollout, e trinity.Endpoint) ([]byte, error) {
	a := assignment{
		Task: r.Task.ID, Eval: r.Task.Eval, Truth: r.Task.Truth(), Row: r.Task.Row, Seed: r.Seed, BaseURL: e.URL(), APIKey: e.Key(),
	}
	if messages, err := r.Task.Messages(""); err == nil { // tasks of programs need no prompt
		a.Prompt = messages[len(messages)-1].Content
	}
	line, err := json.Marshal(a)
	return append(line, '\n'), err
}

// run lets a program make the rollout. work returns what the program answers: its last line counts if
// it is a reward.
func (a *Agent) run(
	ctx context.Context, r *trinity.Rollout, work func(ctx context.Context, e trinity.Endpoint, assignment []byte) ([]byte, error),
) ([]*trinity.Experience, error) {
	models, err := a.models(r.Host)
	if err != nil {
		return nil, err
	}
	e, err := r.Host.Serve(ctx, r.Model, trinity.EndpointOptions{
		Steps: a.Steps, Sampling: a.Sampling, MaxCalls: a.MaxCalls, Models: models,
	})
	if err != nil {
		return nil, err
	}
	line, err := assign(r, e)
	var answer []byte
	if err == nil {
		answer, err = work(ctx, e, line)
	}
	rec, broken := e.Close()
	if broken != nil {
		return nil, broken
	}
	if rec.Failure != nil {
		err = rec.Failure // the program knows more than its exit status says
	}
	if err == nil {
		err = a.judge(ctx, r, rec, answer)
	}
	if err != nil {
		return nil, a.failed(rec, err)
	}
	return rec.Experiences, nil
}

// failed returns the failure of a rollout. What has called the model may have acted elsewhere, too.
func (a *Agent) failed(rec *trinity.Recording, err error) error {
	if engine := (*trinity.EngineError)(nil); errors.As(err, &engine) {
		return err
	}
	out := &trinity.RolloutError{Kind: trinity.FailedAgent, Err: err}
	if known := (*trinity.RolloutError)(nil); errors.As(err, &known) {
		out.Kind = known.Kind
	}
	out.Final = rec.Calls > 0 && !a.Idempotent
	return out
}

// judge gives the rollout its reward: the program's own by POST …/reward, else the one in its last
// line, else that of the task's reward function. A step that has a
// reward of its own keeps it.
func (a *Agent) judge(ctx context.Context, r *trinity.Rollout, rec *trinity.Recording, answer []byte) error {
	if len(rec.Experiences) == 0 {
		return fmt.Errorf("the program received no reply of the policy, of %d calls: it must ask at OPENAI_BASE_URL, with OPENAI_API_KEY",
			rec.Calls)
	}
	reward, given, err := scoreOf(answer)
	switch {
	case rec.Reward != nil:
		reward, given = *rec.Reward, true
	case err != nil:
		return err
	case given:
	case r.Reward != nil:
		messages := rec.Messages
		if n := len(messages); n > 0 {
			messages = messages[:n-1]
		}
		if err := r.Score(ctx, rec.Last, messages...); err != nil {
			return err
		}
		reward, given = rec.Last.Reward, true
	}
	scored := false
	for _, x := range rec.Experiences {
		if scored = scored || x.Reward.Valid; !x.Reward.Valid && given {
			x.Reward = reward
		}
	}
	if !given && !scored {
		return errors.New(`nothing scored the rollout: the program posts a reward or prints {"reward": …} as its last line, ` +
			"or the task names a reward function")
	}
	return nil
}

// scoreOf reads the reward in the last line of an answer, if there is one. A line that only begins
// like a reward is an error.
func scoreOf(answer []byte) (r trinity.Reward, given bool, err error) {
	answer = bytes.TrimSpace(answer)
	line := answer[bytes.LastIndexByte(answer, '\n')+1:]
	var keys map[string]json.RawMessage
	if json.Unmarshal(line, &keys) != nil {
		return r, false, nil // the program's own words
	}
	if keys["reward"] == nil && keys["parts"] == nil && keys["error"] == nil {
		return r, false, nil
	}
	r, failed, wrong := score.Decode(line)
	return r, failed == nil && wrong == nil, errors.Join(failed, wrong)
}
