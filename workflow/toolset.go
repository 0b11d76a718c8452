package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// toolSet is an environment that asks the task's question and offers the tools of other environments,
// whose own first messages the policy does not read. A reply without a call is the answer and ends the
// episode.
type toolSet struct {
	openers  []trinity.EnvironmentOpener
	examples []trinity.Message // before the question
	system   string            // system prompt of tasks that have none
}

// Requires implements [trinity.Requirer].
func (b *toolSet) Requires() (needs trinity.Requirements) {
	checks := []func(*trinity.Task) error{checkPrompt}
	for _, o := range b.openers {
		its := trinity.RequirementsOf(o)
		needs.RewardModels = append(needs.RewardModels, its.RewardModels...)
		needs.Askers = append(needs.Askers, its.Askers...)
		if its.CheckTask != nil {
			checks = append(checks, its.CheckTask)
		}
	}
	needs.CheckTask = func(t *trinity.Task) error {
		for _, check := range checks {
			if err := check(t); err != nil {
				return err
			}
		}
		return nil
	}
	return needs
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (b *toolSet) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	open := &openTools{args: b, task: t}
	for _, o := range b.openers {
		env, err := o.OpenEnvironment(ctx, t)
		if err != nil {
			return nil, errors.Join(err, open.Close())
		}
		open.environments = append(open.environments, env)
	}
	return open, nil
}

// openTools is an episode with tools.
type openTools struct {
	args         *toolSet
	task         *trinity.Task
	environments []trinity.Environment
	owner        map[string]trinity.Environment // by the name of the tool
	names        []string                       // of the tools
}

// Reset implements [trinity.Environment].
func (b *openTools) Reset(ctx context.Context, seed uint64) (first trinity.Observation, err error) {
	messages, err := b.task.Messages(b.args.system)
	if err != nil {
		return first, err
	}
	begin := 0
	if messages[0].Role == "system" {
		begin = 1
	}
	first.Messages = slices.Concat(messages[:begin], b.args.examples, messages[begin:])
	b.owner, b.names = map[string]trinity.Environment{}, nil
	var all []json.RawMessage
	for _, env := range b.environments {
		begin, err := env.Reset(ctx, seed)
		if err != nil {
			return first, err
		}
		schemas, names, err := toolsOf(begin.Tools)
		if err != nil {
			return first, err
		}
		for _, name := range names {
			if b.owner[name] != nil {
				return first, fmt.Errorf("two tools have the name %q", name)
			}
			b.owner[name] = env
		}
		all, b.names = append(all, schemas...), append(b.names, names...)
	}
	if len(all) > 0 {
		first.Tools, err = json.Marshal(all)
	}
	return first, err
}

// toolsOf returns the schemas in an environment's list of tools, and the names of the tools.
func toolsOf(list json.RawMessage) (schemas []json.RawMessage, names []string, err error) {
	if err := json.Unmarshal(list, &schemas); err != nil {
		return nil, nil, fmt.Errorf("an environment without a list of tools: %w", err)
	}
	for _, schema := range schemas {
		var tool struct{ Function struct{ Name string } }
		if err := json.Unmarshal(schema, &tool); err != nil {
			return nil, nil, fmt.Errorf("the schema of a tool: %w", err)
		}
		if tool.Function.Name == "" {
			return nil, nil, fmt.Errorf("a tool without function.name: %s", schema)
		}
		names = append(names, tool.Function.Name)
	}
	return schemas, names, nil
}

// Step implements [trinity.Environment]. It makes the calls of a reply one after another.
func (b *openTools) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	for _, call := range a.Calls {
		env := b.owner[call.Name]
		if env == nil {
			out.ToolError = true
			out.Messages = append(out.Messages, trinity.Message{
				Role: "tool", ToolCallID: call.ID, Name: call.Name,
				Content: fmt.Sprintf("error: there is no tool %q; the tools are %s", call.Name, strings.Join(b.names, ", ")),
			})
			continue
		}
		one, err := env.Step(ctx, trinity.Action{Text: a.Text, Calls: []trinity.ToolCall{call}})
		if err != nil {
			return out, err
		}
		out.Messages = append(out.Messages, one.Messages...)
		out.ToolError = out.ToolError || one.ToolError
		if out.Truncated = one.Truncated; one.Done || one.Truncated {
			out.Done = one.Done
			return out, nil
		}
	}
	out.Done = len(a.Calls) == 0
	return out, nil
}

// Close implements [trinity.Environment].
func (b *openTools) Close() error {
	var all []error
	for _, env := range b.environments {
		all = append(all, env.Close())
	}
	return errors.Join(all...)
}
