package environment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("python_class",
		"An environment of your own: a class in a Python file, with the methods reset and step. `trinity init env.py` writes one, with a "+
			"configuration. reset(**row) begins an episode: it gets those columns of the row that it takes, and seed, and returns what the "+
			"policy reads first, a text or a list of messages. step(text) takes a reply and returns (text, reward, done), or Gymnasium's "+
			"five values; reward None is no reward. Metrics: the numbers of info, the last of the five.",
		func() trinity.EnvironmentOpener {
			return &pythonClass{Python: bridge.Python{Python: "python3"}, Timeout: 30}
		})
}

// pythonClass plays a class of a Python file.
type pythonClass struct {
	bridge.Python `yaml:",inline"`
	File          string         `yaml:"file" required:"name the Python file" doc:"file that has the class"`
	Class         string         `yaml:"class" doc:"name of the class; without it, the only one of the file that has reset and step"`
	Kwargs        map[string]any `yaml:"kwargs" doc:"arguments of the class"`
	Timeout       float64        `yaml:"timeout" range:"(0,3600]" doc:"seconds for each call; the error then names the line at which it is"`
	Log           string         `yaml:"log" doc:"file that gets what the class prints; without it, that is lost"`
}

// Validate checks the arguments.
func (c *pythonClass) Validate() error {
	if _, err := os.Stat(c.File); err != nil {
		return fmt.Errorf("file: there is no %s", c.File)
	}
	return c.Has("json")
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (c *pythonClass) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	python := c.Python
	if python.Env = maps.Clone(c.Env); python.Env == nil {
		python.Env = map[string]string{}
	}
	python.Env["PYTHONHASHSEED"] = cmp.Or(python.Env["PYTHONHASHSEED"], "0") // sets have the same order in all processes
	e := &ownEpisode{Bridge: python.Open(bridge.PythonClass, 1), task: t}
	kwargs := c.Kwargs
	if kwargs == nil {
		kwargs = map[string]any{}
	}
	question := map[string]any{"do": "load", "file": c.File, "name": c.Class, "kwargs": kwargs, "timeout": c.Timeout, "log": c.Log}
	if err := e.Call(ctx, question, &struct{}{}); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// ownEpisode is one episode, and after a Reuse another one.
type ownEpisode struct {
	*bridge.Bridge
	task *trinity.Task
}

// Reuse implements [trinity.Reusable].
func (e *ownEpisode) Reuse(_ context.Context, t *trinity.Task) error {
	e.task = t
	return nil
}

// Reset implements [trinity.Environment].
func (e *ownEpisode) Reset(ctx context.Context, seed uint64) (o trinity.Observation, err error) {
	row := e.task.Row
	if row == nil {
		row = map[string]any{}
	}
	err = e.Call(ctx, map[string]any{"do": "reset", "row": row, "seed": seed}, &o)
	o.State = stateIn(o.Messages)
	return o, err
}

// stateIn returns what the messages say: what the policy reads is all that is known of the state.
func stateIn(messages []trinity.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Content)
	}
	return strings.Join(all, "\n")
}

// Step implements [trinity.Environment].
func (e *ownEpisode) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	err = e.Call(ctx, map[string]any{"do": "step", "text": a.Text}, &out)
	out.State = stateIn(out.Messages)
	return out, err
}
