package workflow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

// playArgs say how the policy acts on an environment, turn by turn. They are part of the workflows that do so.
type playArgs struct {
	Environment      string         `yaml:"environment" doc:"environment that the policy acts on"`
	EnvironmentArgs  map[string]any `yaml:"environment_args" doc:"arguments of the environment"`
	MaxTurns         int            `yaml:"max_turns" doc:"replies of the policy at most; the episode is truncated after them"`
	MaxConcurrent    int            `yaml:"max_concurrent" range:"[0,)" doc:"episodes at once at most; 0 is no limit"`
	ResetTimeout     float64        `yaml:"reset_timeout" range:"(0,inf]" doc:"seconds that the environment may take to begin an episode"`
	StepTimeout      float64        `yaml:"step_timeout" range:"(0,inf]" doc:"seconds that the environment may take for an action"`
	UnfinishedReward float64        `yaml:"unfinished_reward" doc:"reward of an episode that a limit cut off before anything scored it"`

	opener trinity.EnvironmentOpener
	places chan struct{} // one for each concurrent episode; nil without a limit

	reusable *atomic.Bool // the opener's environments can be kept for later rollouts
}

func defaultPlay() playArgs {
	return playArgs{MaxTurns: 30, ResetTimeout: 60, StepTimeout: 60, reusable: &atomic.Bool{}}
}

// Validate builds the environment.
func (p *playArgs) Validate() (err error) {
	switch {
	case p.MaxTurns < 1:
		return fmt.Errorf("max_turns: must be at least 1, got %d", p.MaxTurns)
	case p.Environment == "":
		return errors.New("environment: name one; `trinity list` shows them")
	}
	if p.MaxConcurrent > 0 {
		p.places = make(chan struct{}, p.MaxConcurrent)
	}
	p.opener, err = registry.Environments.Build(p.Environment, p.EnvironmentArgs)
	return err
}

// Requires implements [trinity.Requirer].
func (p *playArgs) Requires() trinity.Requirements {
	needs := trinity.RequirementsOf(p.opener)
	needs.Turns = true
	return needs
}

// episode is what happened between a policy and its environment.
type episode struct {
	dialogue  *trinity.Dialogue
	before    []string // state of the environment before each reply; "" if unknown
	rewards   []float64
	scored    bool // the environment gave a reward
	parts     map[string]float64
	metrics   map[string]float64
	failures  int  // replies whose call of a tool failed
	tools     bool // the policy may call tools
	truncated trinity.Truncation
	end       []trinity.Message // what the environment said last

	forks   bool // keep how the episode went, so that a part of it can be played again
	history []moment
}

// moment is a place in an episode: before a reply, and with what the environment got of the reply.
type moment struct {
	dialogue *trinity.Dialogue // without what is seen
	seen     trinity.Observation
	given    *trinity.Action // nil if the environment got nothing
}

func newEpisode(m *trinity.Model, first trinity.Observation) *episode {
	return &episode{dialogue: m.Dialogue(first.Tools), tools: first.Tools != nil, metrics: map[string]float64{}}
}

// run lets the policy act until the episode ends.
func (p *playArgs) run(ctx context.Context, r *trinity.Rollout) (e *episode, err error) {
	err = p.with(ctx, r, func(env trinity.Environment, first trinity.Observation) error {
		e = newEpisode(r.Model, first)
		return p.turns(ctx, env, e, first)
	})
	return e, err
}

// with begins an episode in an environment, which is the rollout's own while play runs.
func (p *playArgs) with(ctx context.Context, r *trinity.Rollout, play func(trinity.Environment, trinity.Observation) error) error {
	leave, err := p.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	env, first, err := p.begin(ctx, r)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			env.Close()
		}
	}()
	if err := play(env, first); err != nil {
		return err
	}
	kept = p.keep(r, env)
	return nil
}

// Probe begins an episode of a task and ends it: an environment that cannot is found before a model
// is loaded. It returns what the policy reads first.
func (p *playArgs) Probe(ctx context.Context, t *trinity.Task) (first trinity.Observation, err error) {
	if p.reusable.Load() {
		return first, nil // it has begun an episode before
	}
	env, first, err := p.begin(ctx, &trinity.Rollout{Task: t})
	if err != nil {
		return first, err
	}
	return first, env.Close()
}

// enter waits for a place in the environment. leave gives it back.
func (p *playArgs) enter(ctx context.Context) (leave func(), err error) {
	if p.places == nil {
		return func() {}, nil
	}
	select {
	case p.places <- struct{}{}:
		return func() { <-p.places }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for one of the %d places of environment %s: %w", p.MaxConcurrent, p.Environment, context.Cause(ctx))
	}
}

// finish plays an episode. It returns one sequence, or an experience for each reply.
func (p *playArgs) finish(ctx context.Context, r *trinity.Rollout, steps bool) ([]*trinity.Experience, error) {
	if steps {
		return (&stepWise{playArgs: *p, RewardPropagation: "last"}).Run(ctx, r)
	}
	return (&inEnvironment{*p}).Run(ctx, r)
}

// turns lets the policy act from an observation on.
func (p *playArgs) turns(ctx context.Context, env trinity.Environment, e *episode, seen trinity.Observation) error {
	for {
		var now *moment
		if e.forks {
			e.history = append(e.history, moment{dialogue: e.dialogue.Fork(), seen: seen})
			now = &e.history[len(e.history)-1]
		}
		e.dialogue.Add(seen.Messages...)
		reply, err := e.dialogue.Reply(ctx)
		if errors.Is(err, trinity.ErrNoRoom) {
			if e.truncated = trinity.ResponseTruncated; errors.Is(err, trinity.ErrNoTokens) {
				e.truncated = trinity.TokensTruncated
			}
			return nil
		}
		if err != nil {
			return err
		}
		e.before = append(e.before, seen.State)
		var out trinity.Outcome
		if e.tools && reply.Malformed != "" {
			out = unreadable(seen, reply)
		} else {
			action := trinity.Action{Text: reply.Message.Content, Calls: reply.Calls, Malformed: reply.Malformed}
			if now != nil {
				now.given = &action
			}
			if out, err = p.step(ctx, env, action); err != nil {
				return err
			}
		}
		e.add(out)
		switch {
		case out.Truncated, !out.Done && len(e.before) == p.MaxTurns:
			e.truncated = trinity.TurnsTruncated
			return nil
		case out.Done:
			return nil
		}
		seen = out.Observation
	}
}

// begin opens the environment and begins an episode.
func (p *playArgs) begin(ctx context.Context, r *trinity.Rollout) (trinity.Environment, trinity.Observation, error) {
	ctx, cancel := p.timeout(ctx, "reset", p.ResetTimeout)
	defer cancel()
	env, err := p.open(ctx, r)
	if err != nil {
		return nil, trinity.Observation{}, p.broken(ctx, "does not open", err)
	}
	first, err := env.Reset(ctx, r.Seed)
	if err != nil {
		return nil, trinity.Observation{}, p.broken(ctx, "does not reset", errors.Join(err, env.Close()))
	}
	return env, first, nil
}

// unreadable returns what follows a reply with a call that cannot be read. The environment gets
// nothing, and the policy reads why.
func unreadable(seen trinity.Observation, reply *trinity.Reply) trinity.Outcome {
	answer := trinity.Message{Role: "tool", Content: "The call cannot be read: " + reply.Malformed}
	return trinity.Outcome{Observation: trinity.Observation{Messages: []trinity.Message{answer}, State: seen.State}, ToolError: true}
}

// step gives an action to the environment.
func (p *playArgs) step(ctx context.Context, env trinity.Environment, a trinity.Action) (trinity.Outcome, error) {
	ctx, cancel := p.timeout(ctx, "step", p.StepTimeout)
	defer cancel()
	out, err := env.Step(ctx, a)
	if err != nil {
		return out, p.broken(ctx, "does not step", err)
	}
	if len(out.Messages) == 0 && !out.Done && !out.Truncated {
		return out, p.failed("does not step", errors.New("it says nothing and does not end the episode"))
	}
	return out, nil
}

func (p *playArgs) timeout(ctx context.Context, what string, seconds float64) (context.Context, context.CancelFunc) {
	d := wait.Seconds(seconds)
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%s_timeout of %v passed", what, d))
}

// broken returns the error of an environment: what ended its context, if that has ended.
func (p *playArgs) broken(ctx context.Context, what string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if already := (*trinity.RolloutError)(nil); errors.As(err, &already) {
		return fmt.Errorf("environment %s: %w", p.Environment, err)
	}
	return p.failed(what, err)
}

func (p *playArgs) failed(what string, err error) error {
	return &trinity.RolloutError{Kind: trinity.FailedEnvironment, Err: fmt.Errorf("environment %s %s: %w", p.Environment, what, err)}
}

// add takes the outcome of a reply.
func (e *episode) add(out trinity.Outcome) {
	reward := 0.0
	if out.Reward != nil {
		reward, e.scored = *out.Reward, true
	}
	e.rewards, e.end = append(e.rewards, reward), out.Messages
	for name, v := range out.Parts {
		if e.parts == nil {
			e.parts = map[string]float64{}
		}
		e.parts[name] += v
	}
	for name, v := range out.Metrics {
		e.metrics[name] = v
	}
	if out.ToolError {
		e.failures++
	}
}

// reward returns the reward of the whole episode: that of the task's reward function if it names one,
// else the sum of the environment's, else unfinished_reward if a limit cut the episode off.
func (p *playArgs) reward(ctx context.Context, r *trinity.Rollout, e *episode, last *trinity.Experience) (trinity.Reward, error) {
	switch {
	case r.Reward != nil:
		messages := e.dialogue.Messages()
		err := r.Score(ctx, last, messages[:len(messages)-1]...)
		return last.Reward, err
	case e.scored:
		sum := 0.0
		for _, v := range e.rewards {
			sum += v
		}
		if math.IsNaN(sum) || math.IsInf(sum, 0) {
			return trinity.InvalidReward("the rewards of environment " + p.Environment + " add up to no finite number"), nil
		}
		return trinity.Reward{Value: sum, Valid: true, Parts: e.parts}, nil
	case e.truncated != trinity.NotTruncated:
		return trinity.Reward{Value: p.UnfinishedReward, Valid: true, Parts: e.parts}, nil
	default:
		return trinity.InvalidReward("environment " + p.Environment + " scored nothing, and the task names no reward function"), nil
	}
}

// describe writes what the episode's experiences share into them.
func (e *episode) describe(exps []*trinity.Experience) {
	if len(exps) == 0 {
		return
	}
	for name, v := range e.metrics {
		exps[0].Metrics[name] = v
	}
	if e.failures > 0 {
		exps[0].Metrics["tool_error_rate"] = float64(e.failures) / float64(len(e.rewards))
	}
	if last := exps[len(exps)-1]; e.truncated != trinity.NotTruncated {
		last.Truncated = e.truncated
	}
}
