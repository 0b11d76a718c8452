package trinity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// Rollout is the input of a Workflow: one run of a task.
type Rollout struct {
	Task   *Task
	Seed   uint64     // equal for all rollouts of the group, so that they begin alike; in an evaluation, at every step
	Model  *Model     // the policy; every call to it goes through here
	Reward RewardFunc // the reward function that the task names, or the workflow's default; nil without either
	Host   Host       // the run around the rollout
	// Grade calls the reward function under its deadline. nil calls it without one.
	Grade func(ctx context.Context, score func(context.Context) (Reward, error)) (Reward, error)
}

// Score scores e, the model's reply to messages, with the rollout's reward function, and writes
// e.Reward. If the function cannot score the reply, the reward is invalid, with the reason and the
// kind of the failure. A reply to a truncated prompt keeps its reward. Score returns an error only if
// an engine failed, which ends the run, or if the rollout's time has ended meanwhile.
func (r *Rollout) Score(ctx context.Context, e *Experience, messages ...Message) error {
	if e.Truncated == PromptTruncated {
		return nil
	}
	if r.Reward == nil {
		e.Reward = InvalidReward("the task names no reward function: set default_reward_fn_type")
		return nil
	}
	in := RewardInput{
		Task: r.Task, Messages: append(slices.Clip(messages), Message{Role: "assistant", Content: e.Response}),
		Prompt: e.Prompt, Response: e.Response, Opening: r.opening(e), Truth: r.Task.Truth(), Experience: e, Host: r.Host,
	}
	score := func(ctx context.Context) (Reward, error) { return r.Reward.Score(ctx, in) }
	reward, err := Reward{}, error(nil)
	if r.Grade == nil {
		reward, err = score(ctx)
	} else {
		reward, err = r.Grade(ctx, score)
	}
	if engine := (*EngineError)(nil); errors.As(err, &engine) {
		return err
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("scoring %s: %w", e.ID, context.Cause(ctx))
	}
	if err != nil {
		reward = Reward{Reason: err.Error(), Kind: KindOf(err, FailedReward)}
	}
	e.Reward = reward
	return nil
}

// opening returns the thinking tag, with the spaces after it, that the tokens before e.Response end with,
// "" if they end otherwise or if the response has the tag.
func (r *Rollout) opening(e *Experience) string {
	const tag, longest = "<think>", 256
	if r.Model == nil || r.Model.Renderer == nil || e.PromptLen > len(e.Tokens) {
		return ""
	}
	decode := r.Model.Renderer.Decode
	begin := e.PromptLen
	if !strings.HasSuffix(e.Response, decode(e.Tokens[begin:])) { // of several turns, the response is the last
		for begin = len(e.Mask); begin > e.PromptLen && e.Mask[begin-1]; begin-- {
		}
	}
	prefix, ok := strings.CutSuffix(e.Response, decode(e.Tokens[begin:])) // format.reply_prefix is part of the response
	before, also := strings.CutSuffix(decode(e.Tokens[max(0, begin-longest):begin]), prefix)
	if !ok || !also || !strings.HasSuffix(strings.TrimRightFunc(before, unicode.IsSpace), tag) {
		return ""
	}
	return before[strings.LastIndex(before, tag):]
}

// Host gives workflows and reward functions access to the run around a rollout. Many goroutines may
// use it at once.
type Host interface {
	// Model returns another model by name: an adapter of model.lora_configs, or BaseAdapter. It
	// samples with the task's parameters and a seed that follows from the rollout's seed and the name.
	// Its experiences are not for training.
	Model(name string) (*Model, error)
	// Asker returns a model that is asked in words, by the name in the plug-in's Requirements: a model of
	// explorer.auxiliary_models, or PolicyAsker.
	Asker(name string) (Asker, error)
	// RewardModel returns a reward model by the path or hub name in the plug-in's Requirements.
	RewardModel(name string) (*RewardModel, error)
	// Dir returns a directory of the run for files of a plug-in, and creates it if there is none. name
	// is one path element. The directory outlives the process.
	Dir(name string) (string, error)
	// Serve opens an endpoint for m, the rollout's model. It ends with ctx.
	Serve(ctx context.Context, m *Model, o EndpointOptions) (Endpoint, error)
	// Open returns the resource with this key, which all plug-ins of the stage share. The first call
	// makes it with open, and the stage closes it when it ends. What open's resource writes to log
	// goes to plugins.log among the logs of the run. Several resources write to it at once.
	Open(key string, open func(log io.Writer) (io.Closer, error)) (io.Closer, error)
	// Wait calls until, for a rollout that waits its turn for something that several share. That time
	// does not count against the rollout's deadline.
	Wait(ctx context.Context, until func(context.Context) error) error
	// Say prints a line for people.
	Say(line string)
}

// Requirements lists what a workflow or a reward function needs from a run. `trinity check` and the
// memory plan read it before the run loads a model.
type Requirements struct {
	// Reward says that the workflow scores with Rollout.Reward. If the task names no reward function,
	// that is DefaultReward; if DefaultReward is "", the task must name one.
	Reward        bool
	DefaultReward string
	// RewardAtOnce says that the workflow reads the rewards of replies before their group has ended, when a [GroupReward] has
	// scored none.
	RewardAtOnce  bool
	RewardModels  []RewardModelSpec
	Askers        []AskerSpec
	// Turns says that a rollout may have several replies in one dialogue; Tools, that the policy may
	// call tools in it.
	Turns, Tools bool
	// Program says that a program asks the policy at Host.Serve, perhaps with tools of its own.
	Program bool
	// Steps says that a rollout has an experience for each reply.
	Steps bool
	// Parts says that a rollout may have experiences of several parts (Experience.Part), which an algorithm that compares
	// steps cannot tell apart.
	Parts bool
	// Packs says that a rollout solves the tasks of Task.Pack one after the other; FillPacks, that rows
	// from the beginning fill the last pack of an evaluation.
	Packs, FillPacks bool
	// TopP is the nucleus with which the workflow samples whatever the taskset says; 0 leaves the taskset's.
	TopP float32
	// RunGroup makes all rollouts of a task's group in one call, in place of Run, and returns the experiences
	// of each. One without experiences failed, for the reason that the error gives. It is nil if each is made
	// by itself.
	RunGroup func(ctx context.Context, group []*Rollout) ([][]*Experience, error)
	// CheckTask returns why a task cannot be run or scored, as far as the task alone shows it. The
	// run checks the rows of a taskset with it before it loads a model. It may be nil.
	CheckTask func(*Task) error
}

// RewardModelSpec names a reward model that Host.RewardModel returns.
type RewardModelSpec struct {
	Path   string // directory or hub name
	Arg    string // the plug-in's argument that names it, for errors
	Labels int    // labels that the model must have at least
}

// AskerSpec names a model that Host.Asker returns.
type AskerSpec struct {
	Name   string
	Arg    string       // the plug-in's argument that names it, for errors
	Server *AskerServer // where the model is, if it is in no list of the configuration; else nil
}

// AskerServer is an OpenAI-compatible server with a model.
type AskerServer struct {
	Model      string // by its name at the server
	BaseURLEnv string // environment variable with the server's address
	KeyEnv     string // environment variable with the key, which may be unset
}

// Requirer is a Workflow or RewardFunc with Requirements.
type Requirer interface {
	Requires() Requirements
}

// RequirementsOf returns the requirements of a plug-in, the zero value if it has none.
func RequirementsOf(plugin any) Requirements {
	if r, ok := plugin.(Requirer); ok {
		return r.Requires()
	}
	return Requirements{}
}
