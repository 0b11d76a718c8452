package environment

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

//go:embed python/gymnasium.py
var gymnasiumScript string

func init() {
	registry.Environments.Register("gymnasium",
		"An environment of Gymnasium, by its id, in a Python process. The policy reads the observation as text: a number, a JSON value, or "+
			"what render_mode ansi draws. It writes one action between ``` and ```, or nothing else: one of the names in actions, the number "+
			"of a discrete action, or a JSON value. A row's columns env_id and env_kwargs go before the arguments. Words of the messages: "+
			"{id}, {observation}, {actions}, {action} (an example), {steps} that are left. Metrics: valid, the share of the replies with an "+
			"action; success, if the environment tells it.",
		func() trinity.EnvironmentOpener {
			return &pythonGym{Python: bridge.Python{Python: "python3"}, tabular: tabular{
				Ask: "You act in {id}. An action is {actions}. Think first, then write one between ``` and ```, such as ```{action}```." +
					"\n\n{observation}",
				Tell: "{observation}", Unread: unread, MaxSteps: 200}}
		})
}

// pythonGym is an environment of Gymnasium.
type pythonGym struct {
	bridge.Python `yaml:",inline"`
	tabular       `yaml:",inline"`
	ID            string         `yaml:"id" doc:"id of the environment, such as CartPole-v1"`
	Kwargs        map[string]any `yaml:"kwargs" doc:"arguments of gymnasium.make"`
	Imports       []string       `yaml:"imports" doc:"Python modules that register ids, such as minigrid"`
	Actions       []string       `yaml:"actions" doc:"names of discrete actions, in order"`
}

// Validate checks the arguments.
func (g *pythonGym) Validate() error {
	return g.Has("gymnasium")
}

// Requires implements [trinity.Requirer].
func (g *pythonGym) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: func(t *trinity.Task) error {
		_, _, err := g.of(t)
		return err
	}}
}

// of returns the id and the arguments of a task's environment.
func (g *pythonGym) of(t *trinity.Task) (id string, kwargs map[string]any, err error) {
	own := map[string]any{}
	id = g.ID
	if err := columns(t, map[string]any{"env_id": &id, "env_kwargs": &own}); err != nil {
		return "", nil, err
	}
	if id == "" {
		return "", nil, errors.New("id: name an environment, or give the rows a column env_id")
	}
	kwargs = map[string]any{}
	maps.Copy(kwargs, g.Kwargs)
	maps.Copy(kwargs, own)
	return id, kwargs, nil
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (g *pythonGym) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	e := &gymEpisode{args: g, Bridge: g.Open(gymnasiumScript, 1)}
	if err := e.Reuse(ctx, t); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// gymEpisode is one episode, and after a Reuse another one.
type gymEpisode struct {
	args *pythonGym
	*bridge.Bridge
	id          string
	render      bool // the text of an observation is what render returns
	space       actionSpace
	steps, read int
	observation string
}

// actionSpace is what the other side says of actions.
type actionSpace struct {
	Space        string
	Example      any
	First, Count int // of discrete actions; Count is 0 for others
}

// Reuse implements [trinity.Reusable].
func (e *gymEpisode) Reuse(ctx context.Context, t *trinity.Task) error {
	id, kwargs, err := e.args.of(t)
	if err != nil {
		return err
	}
	e.id, e.render = id, kwargs["render_mode"] == "ansi"
	imports := e.args.Imports
	if imports == nil {
		imports = []string{}
	}
	e.space = actionSpace{}
	if err := e.Call(ctx, map[string]any{"do": "make", "id": id, "kwargs": kwargs, "imports": imports}, &e.space); err != nil {
		return err
	}
	if len(e.args.Actions) > 0 && len(e.args.Actions) != e.space.Count {
		return fmt.Errorf("actions: %d names for %d discrete actions of %s (%s)", len(e.args.Actions), e.space.Count, id, e.space.Space)
	}
	return nil
}

// stateReply is what the other side says of a state.
type stateReply struct {
	Observation json.RawMessage
	Text        *string
	Reward      float64
	Terminated  bool
	Truncated   bool
	Invalid     bool
	Success     *float64
}

// Reset implements [trinity.Environment].
func (e *gymEpisode) Reset(ctx context.Context, seed uint64) (trinity.Observation, error) {
	e.steps, e.read = 0, 0
	var s stateReply
	if err := e.Call(ctx, map[string]any{"do": "reset", "seed": seed, "render": e.render}, &s); err != nil {
		return trinity.Observation{}, err
	}
	e.observe(&s)
	return e.says(e.args.Ask), nil
}

// observe takes the text of a state.
func (e *gymEpisode) observe(s *stateReply) {
	e.observation = string(s.Observation)
	var text string
	if json.Unmarshal(s.Observation, &text) == nil {
		e.observation = text
	}
	if s.Text != nil {
		e.observation = *s.Text
	}
}

// says returns what the policy reads.
func (e *gymEpisode) says(text string) trinity.Observation {
	actions, example := e.space.Space+" as JSON", ""
	if shown, err := json.Marshal(e.space.Example); err == nil {
		example = string(shown)
	}
	if e.space.Count > 0 {
		actions = fmt.Sprintf("a number from %d to %d", e.space.First, e.space.First+e.space.Count-1)
	}
	if len(e.args.Actions) > 0 {
		actions, example = "one of "+strings.Join(e.args.Actions, ", "), e.args.Actions[0]
	}
	return says(text, e.observation, "{id}", e.id, "{observation}", e.observation, "{actions}", actions, "{action}", example,
		"{steps}", strconv.Itoa(e.args.MaxSteps-e.steps))
}

// action returns the action that a reply names; ok is false if it names none.
func (e *gymEpisode) action(reply string) (action any, ok bool) {
	if i := chosen(reply, e.args.Actions); i >= 0 {
		return e.space.First + i, true
	}
	text := strings.TrimSpace(fenced(reply))
	if e.space.Count > 0 {
		n, err := strconv.Atoi(strings.Trim(text, ".\"'*"))
		return n, err == nil
	}
	if json.Unmarshal([]byte(text), &action) != nil {
		action = text // of a space of texts
	}
	return action, text != ""
}

// Step implements [trinity.Environment].
func (e *gymEpisode) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	e.steps++
	s := stateReply{Invalid: true}
	if action, ok := e.action(a.Text); ok {
		s.Invalid = false
		if err := e.Call(ctx, map[string]any{"do": "step", "action": action, "render": e.render}, &s); err != nil {
			return out, err
		}
	}
	reward, text := s.Reward, e.args.Tell
	if s.Invalid {
		reward, text = e.args.UnreadReward, strings.TrimSpace(e.args.Unread+"\n"+text)
	} else {
		e.read++
		e.observe(&s)
	}
	out.Observation, out.Reward, out.Done = e.says(text), &reward, s.Terminated
	out.Truncated = !out.Done && (s.Truncated || e.steps == e.args.MaxSteps)
	out.Metrics = map[string]float64{"valid": float64(e.read) / float64(e.steps)}
	if s.Success != nil {
		out.Metrics["success"] = *s.Success
	}
	return out, nil
}
