package workflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	for name, doc := range map[string]string{
		"react_workflow": "The policy answers the task's question with tools: it calls some, reads their results, and so on until a reply " +
			"has no call. The task's reward function scores that reply. A tool is an environment that offers it. The episode is one " +
			"sequence, or with `steps` an experience for each reply.",
		"as_react_workflow":         "The same as react_workflow.",
		"agentscope_react_workflow": "The same as react_workflow.",

		"agentscope_react_math_workflow":   "The same as react_workflow. Python is a tool if `tools` names an environment that offers it.",
		"agentscopev0_react_math_workflow": "The same as agentscope_react_math_workflow.",
	} {
		registry.Workflows.Register(name, doc, func() trinity.Workflow { return &reAct{MaxTurns: 10, ToolTimeout: 60} })
	}
}

// reAct lets the policy reason and call tools by turns.
type reAct struct {
	Tools       []string                  `yaml:"tools" doc:"environments whose tools the policy may call"`
	ToolArgs    map[string]map[string]any `yaml:"tool_args" doc:"arguments of these environments, by their names"`
	Examples    []trinity.Message         `yaml:"examples" doc:"messages before the question, with role and content, such as a worked example"`
	Steps       bool                      `yaml:"steps" doc:"each reply is an experience of its own, for algorithms that know steps"`
	MaxTurns    int                       `yaml:"max_turns" range:"[1,)" doc:"replies of the policy at most; the last one is scored"`
	ToolTimeout float64                   `yaml:"tool_timeout" range:"(0,inf]" doc:"seconds that the tools may take for the calls of a reply"`

	play playArgs
}

// Validate builds the environments.
func (w *reAct) Validate() error {
	for _, m := range w.Examples {
		if m.Role == "" || m.Content == "" {
			return errors.New("examples: a message has a role and a content")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.ToolArgs)) {
		if !slices.Contains(w.Tools, name) {
			return fmt.Errorf("tool_args: %q is not among tools", name)
		}
	}
	set := &toolSet{examples: w.Examples}
	for _, name := range w.Tools {
		opener, err := registry.Environments.Build(name, w.ToolArgs[name])
		if err != nil {
			return err
		}
		set.openers = append(set.openers, opener)
	}
	w.play = defaultPlay()
	w.play.Environment, w.play.opener, w.play.MaxTurns = strings.Join(w.Tools, "+"), set, w.MaxTurns
	w.play.ResetTimeout, w.play.StepTimeout = w.ToolTimeout, w.ToolTimeout
	return nil
}

// Requires implements [trinity.Requirer].
func (w *reAct) Requires() trinity.Requirements {
	needs := w.play.Requires()
	needs.Steps = w.Steps
	needs.Reward, needs.DefaultReward, needs.Tools = true, "math_boxed_reward", len(w.Tools) > 0
	return needs
}

// Probe begins an episode of each tool and ends it: see [Play.Probe].
func (w *reAct) Probe(ctx context.Context, t *trinity.Task) (trinity.Observation, error) {
	return w.play.Probe(ctx, t)
}

// Run implements [trinity.Workflow].
func (w *reAct) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	return w.play.finish(ctx, r, w.Steps)
}
