package environment

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("reasoning_gym",
		"A question of one of reasoning-gym's generators, which scores the answer, in a Python process. A row's columns dataset, config and "+
			"index go before the arguments; without index, row i asks entry i, so that any file with as many rows makes a taskset. The answer "+
			"is the text between <answer> and </answer>, else the whole reply. Reward: the generator's score. Word of the message: "+
			"{question}. Metric: success, 1 for a score of 1.",
		func() trinity.EnvironmentOpener {
			return &reasoningGym{Python: bridge.Python{Python: "python3"}, Ask: "{question}"}
		})
}

// reasoningGym asks questions of generators.
type reasoningGym struct {
	bridge.Python `yaml:",inline"`
	Dataset       string         `yaml:"dataset" doc:"name of the generator, such as countdown"`
	Config        map[string]any `yaml:"config" doc:"arguments of the generator, such as size, the number of entries (500), and seed (0)"`
	Ask           string         `yaml:"ask" required:"write the message to the policy" doc:"message to the policy"`
}

// Validate checks the arguments.
func (g *reasoningGym) Validate() error {
	return g.Has(bridge.ReasoningGym.Module)
}

// Requires implements [trinity.Requirer].
func (g *reasoningGym) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkBy(g.entryOf)}
}

// entryOf returns the entry of a task, as arguments of a question to the other side.
func (g *reasoningGym) entryOf(t *trinity.Task) (map[string]any, error) {
	name, index, own := g.Dataset, t.Index, map[string]any{}
	if err := columns(t, map[string]any{"dataset": &name, "config": &own, "index": &index}); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, errors.New("dataset: name a generator, such as countdown, or give the rows a column dataset")
	}
	if index < 0 {
		return nil, fmt.Errorf("column \"index\": must not be negative, got %d", index)
	}
	config := map[string]any{"seed": 0}
	maps.Copy(config, g.Config)
	maps.Copy(config, own)
	return map[string]any{"dataset_name": name, "config": config, "index": index}, nil
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (g *reasoningGym) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	e := &generated{args: g, Bridge: g.Open(bridge.ReasoningGym.Script, 1)}
	if err := e.Reuse(ctx, t); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// generated is one episode, and after a Reuse another one.
type generated struct {
	args *reasoningGym
	*bridge.Bridge
	entry map[string]any
}

// Reuse implements [trinity.Reusable].
func (e *generated) Reuse(_ context.Context, t *trinity.Task) (err error) {
	e.entry, err = e.args.entryOf(t)
	return err
}

// Reset implements [trinity.Environment].
func (e *generated) Reset(ctx context.Context, _ uint64) (o trinity.Observation, err error) {
	question := map[string]any{"do": "ask"}
	maps.Copy(question, e.entry)
	var said struct{ Question string }
	if err := e.Call(ctx, question, &said); err != nil {
		return o, err
	}
	return says(e.args.Ask, said.Question, "{question}", said.Question), nil
}

// Step implements [trinity.Environment].
func (e *generated) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	score, err := e.ScoreEntry(ctx, e.entry, a.Text)
	if err != nil {
		return out, err
	}
	return trinity.Outcome{Reward: &score, Done: true, Metrics: map[string]float64{"success": asNumber(score == 1)}}, nil
}
