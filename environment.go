package trinity

import (
	"context"
	"encoding/json"
)

// Environment is what the policy acts on in one rollout: a game, a shell, a database. A rollout's
// goroutine calls its methods one after another. An error means that the environment is broken; what
// the policy did wrong is an Outcome.
type Environment interface {
	// Reset begins an episode. Equal seeds begin equal episodes.
	Reset(ctx context.Context, seed uint64) (Observation, error)
	// Step applies an action. Nobody calls it after an Outcome with Done or Truncated.
	Step(ctx context.Context, a Action) (Outcome, error)
	// Close frees what the environment holds. It is called once, on every path out of a rollout, or
	// when the run ends if the environment is kept for later ones.
	Close() error
}

// Reusable is an Environment that is costly to open, such as one with a process. After an episode
// without an error the run keeps it for a later task.
type Reusable interface {
	Environment
	// Reuse prepares the environment for a task; Reset comes next. After an error it is closed.
	Reuse(ctx context.Context, t *Task) error
}

// EnvironmentOpener is the plug-in: it opens environments, with the arguments in its exported fields.
// Many goroutines call it at once.
type EnvironmentOpener interface {
	OpenEnvironment(ctx context.Context, t *Task) (Environment, error)
}

// Observation is what the policy sees.
type Observation struct {
	Messages []Message       // what the environment says: system, user and tool messages
	Tools    json.RawMessage // schemas of the tools that the policy may call; read after Reset alone
	State    string          // what tells equal states apart from others, Info["env_state_hash"] of gigpo; "" if unknown
}

// Action is what the policy did: the text of its reply and the calls in it.
type Action struct {
	Text  string
	Calls []ToolCall
	// Malformed says why a call in the reply cannot be read; "" if there is none.
	Malformed string
}

// Outcome is the environment's answer to an action.
type Outcome struct {
	Observation
	Reward    *float64           // of this action; nil if it is not scored
	Parts     map[string]float64 // of the reward, by name
	Done      bool               // the episode has ended
	Truncated bool               // the episode was cut off, for example by its own limit of steps
	Metrics   map[string]float64 // logged as rollout/<name>; the last outcome that has one counts
	ToolError bool               // a tool that the policy called failed
}
