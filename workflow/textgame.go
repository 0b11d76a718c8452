package workflow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
)

// gameArgs say how Trinity-RFT's workflows play games of text. They are part of them.
type gameArgs struct {
	MaxEnvSteps int `yaml:"max_env_steps" range:"[1,)" doc:"replies of the policy at most; max_turns, if it is set and lower, counts"`
}

// gamePlay returns the defaults of a game. An episode that is cut off has a reward of its own.
func gamePlay(unfinished float64) playArgs {
	p := defaultPlay()
	p.MaxTurns, p.UnfinishedReward = 0, unfinished
	return p
}

// on wraps the environment that a workflow has built. system says how the policy writes, "" if the
// environment says so.
func (g gameArgs) on(workflow string, p *playArgs, share bool, system string) error {
	if p.MaxTurns == 0 || p.MaxTurns > g.MaxEnvSteps {
		p.MaxTurns = g.MaxEnvSteps
	}
	if p.Environment == "" {
		p.Environment = "of " + workflow
		p.opener = noGame{workflow}
		return nil
	}
	if err := p.Validate(); err != nil {
		return err
	}
	p.opener = gameOpener{p.opener, share, system}
	return nil
}

// noGame stands for an environment that the arguments do not name, as in files of Trinity-RFT, where
// a Python package plays the game.
type noGame struct{ workflow string }

func (g noGame) missing() error {
	return fmt.Errorf("workflow_args.environment: name what plays the game of %s, such as openenv with environment_args {url: \"http://…\"} "+
		"for a server of it; no Python package of it is part of this program", g.workflow)
}

// Requires implements [trinity.Requirer].
func (g noGame) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: func(*trinity.Task) error { return g.missing() }}
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (g noGame) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	return nil, g.missing()
}

// gameOpener opens another environment as a game. Its fields are exported for the key by which
// environments are kept.
type gameOpener struct {
	trinity.EnvironmentOpener
	Share  bool   // the reward is the highest sum of the environment's so far, in hundredths; else the last one
	System string // added to the system prompt
}

// Requires implements [trinity.Requirer].
func (g gameOpener) Requires() trinity.Requirements {
	return trinity.RequirementsOf(g.EnvironmentOpener)
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (g gameOpener) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	env, err := g.EnvironmentOpener.OpenEnvironment(ctx, t)
	if err != nil {
		return nil, err
	}
	if again, ok := env.(trinity.Reusable); ok {
		return &gameAgain{game{Environment: env, of: g}, again}, nil
	}
	return &game{Environment: env, of: g}, nil
}

// game is an episode in which actions stand in <action>…</action>.
type game struct {
	trinity.Environment
	of        gameOpener
	sum, best float64
	rounds    int
}

// gameAgain is a game whose environment can be used again.
type gameAgain struct {
	game
	again trinity.Reusable
}

// Reuse implements [trinity.Reusable].
func (g *gameAgain) Reuse(ctx context.Context, t *trinity.Task) error { return g.again.Reuse(ctx, t) }

// Reset implements [trinity.Environment].
func (g *game) Reset(ctx context.Context, seed uint64) (trinity.Observation, error) {
	g.sum, g.best, g.rounds = 0, 0, 0
	o, err := g.Environment.Reset(ctx, seed)
	if g.of.System != "" {
		o.Messages = instructed(o.Messages, g.of.System)
	}
	return withState(o), err
}

// withState gives an observation without a state that of its words.
func withState(o trinity.Observation) trinity.Observation {
	if o.State == "" {
		sum := sha256.New()
		for _, m := range o.Messages {
			fmt.Fprintf(sum, "%s\n", m.Content)
		}
		o.State = hex.EncodeToString(sum.Sum(nil))
	}
	return o
}

// Step implements [trinity.Environment].
func (g *game) Step(ctx context.Context, a trinity.Action) (trinity.Outcome, error) {
	if _, rest, ok := strings.Cut(a.Text, "<action>"); ok {
		action, _, _ := strings.Cut(rest, "</action>")
		a.Text = strings.TrimSpace(action)
	}
	out, err := g.Environment.Step(ctx, a)
	if err != nil {
		return out, err
	}
	out.Observation = withState(out.Observation)
	if out.Reward != nil {
		g.sum += *out.Reward
	}
	switch {
	case g.of.Share:
		more := max(0, g.sum-g.best) / 100
		g.best = max(g.best, g.sum)
		out.Reward = &more
	case !out.Done:
		out.Reward = nil
	}
	metrics := map[string]float64{"env_rounds": float64(g.rounds), "env_done": 0}
	if out.Done {
		metrics["env_done"] = 1
	}
	for name, v := range out.Metrics {
		metrics[name] = v
	}
	g.rounds++
	out.Metrics = metrics
	return out, nil
}
