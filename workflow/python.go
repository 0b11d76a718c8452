package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("python",
		"A class or a function of yours in Python makes the rollout. default_workflow_type: my.flows.Walk names it as well; workflow_args "+
			"are then its arguments, beside group, steps, sampling, max_calls, models, auxiliary_models, required_tools and "+
			"idempotent, which are this plug-in's. Workflow classes of Trinity-RFT run as they are. A function takes, by the names of its "+
			"parameters, task and model, and arguments; it returns a reward, a dict of parts, or experiences, and may be async. "+
			"The reward is that of the class; where a function returns None, it is that of the task's reward function. A reward that is "+
			"None or NaN, and an exception, are a failed rollout, and never reward 0. Training learns the tokens that the policy wrote, as "+
			"they were sampled, without those that action_mask of an experience leaves out. With group, one call makes all rollouts "+
			"of a task: reply i of chat(n=G) is that of rollout i. A rollout that has called the model is not attempted again, unless "+
			"idempotent is set. The section python of the configuration says which Python runs it, with the rights of the run; what it "+
			"prints goes to plugins.log. Rollouts of programs are not the same in every run.",
		func() trinity.Workflow {
			p := &pythonWorkflow{agentArgs: defaultAgent(), Python: bridge.DefaultPlugins()}
			p.asks = "by model.chat, or by a client of model.openai()"
			return p
		})
	registry.Workflows.Elsewhere("python", "class", ownArgs...)
}

// ownArgs are arguments of the plug-in beside those of the class.
var ownArgs = []string{"group", "steps", "sampling", "max_calls", "models", "auxiliary_models", "required_tools", "idempotent"}

// pythonWorkflow lets a class or a function in a process of Python make rollouts.
type pythonWorkflow struct {
	Class     string         `yaml:"class" required:"name a class, such as my.flows.Walk" doc:"package.module.Name, or file.py:Name"`
	Args      map[string]any `yaml:"args" doc:"workflow_args of the class, or arguments of the function beside task and model"`
	Group     bool           `yaml:"group" doc:"one call makes the rollouts of a task's group, for a class that compares them"`
	Auxiliary []string       `yaml:"auxiliary_models" doc:"its auxiliary models, by their names in explorer.auxiliary_models, in this order"`
	Python    bridge.Plugins `yaml:"python" doc:"the section python, if it is another for this class"`
	agentArgs `yaml:",inline"`

	canRepeat bool // says the class
}

// Validate checks that the class exists and takes the arguments.
func (p *pythonWorkflow) Validate() error {
	if p.Class == "" {
		return nil // the tag required reports it
	}
	set := given(p)
	if p.auxiliary = p.Auxiliary; len(p.Auxiliary) > 0 {
		models := map[string]string{"*": trinity.PolicyAsker}
		for _, name := range p.Auxiliary {
			models[name] = name
		}
		maps.Copy(models, p.Models)
		p.Models = models
	}
	if err := p.agentArgs.Validate(); err != nil {
		return err
	}
	is, err := p.Python.Check("workflow", p.Class, &p.Args)
	p.Steps, p.canRepeat = p.Steps || is.Steps, is.CanRepeat
	if err != nil {
		return err
	}
	return p.checkTaken(set, is.Arguments)
}

// MayCompare reports whether the class may compare the rollouts of a task, as one with a judge does that can repeat, and does
// not get them together.
func (p *pythonWorkflow) MayCompare() bool { return p.canRepeat && !p.Group && len(p.auxiliary) > 0 }

// checkTaken returns an error if the plug-in has taken an argument that the function has, too, so that it does not get it.
func (p *pythonWorkflow) checkTaken(set map[string]any, arguments []bridge.Argument) error {
	defaults := given(&pythonWorkflow{agentArgs: defaultAgent()})
	for _, a := range arguments {
		_, isGiven := p.Args[a.Name]
		isTaken := slices.Contains(ownArgs, a.Name) && !reflect.DeepEqual(set[a.Name], defaults[a.Name])
		if isTaken && !isGiven && a.Name != "auxiliary_models" { // whose models the function gets
			return fmt.Errorf("%s: it is the workflow python's, and %s has an argument of this name, which does not get it: give the "+
				"argument another name, or set it with default_workflow_type: python, workflow_args: {class: %s, args: {%s: …}}",
				a.Name, p.Class, p.Class, a.Name)
		}
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (p *pythonWorkflow) Requires() trinity.Requirements {
	needs := p.agentArgs.Requires()
	if p.Group {
		needs.RunGroup = p.runGroup
	}
	return needs
}

// Run implements [trinity.Workflow].
func (p *pythonWorkflow) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	exps, err := p.make(ctx, "rollout", []*trinity.Rollout{r})
	if err != nil {
		return nil, err
	}
	return exps[0], nil
}

func (p *pythonWorkflow) runGroup(ctx context.Context, group []*trinity.Rollout) ([][]*trinity.Experience, error) {
	return p.make(ctx, "group", group)
}

// make asks a process for rollouts. It posts the experiences to the endpoints, as every program does, and is asked once:
// what ends a process may have acted elsewhere before.
func (p *pythonWorkflow) make(ctx context.Context, do string, group []*trinity.Rollout) ([][]*trinity.Experience, error) {
	own := make([]*trinity.Rollout, len(group))
	for i, r := range group {
		copied := *r
		own[i] = &copied
	}
	places, err := p.places(group[0].Host)
	if err != nil {
		return nil, err
	}
	err = group[0].Host.Wait(ctx, func(ctx context.Context) error {
		select {
		case places <- struct{}{}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return nil, err
	}
	defer func() { <-places }()
	return p.agentArgs.runGroup(ctx, own, nil, nil, func(ctx context.Context, _ []trinity.Endpoint, assignments []assignment) ([]byte, error) {
		q := bridge.Question{Do: do, Name: p.Class, Rollouts: true, Body: map[string]any{
			"args": p.Args, "assignments": assignments,
		}}
		var told struct {
			Answer struct {
				Scored []bool `json:"scored"` // of each rollout: the class has decided about its reward
			} `json:"answer"`
		}
		if err := p.Python.Ask(ctx, group[0].Host, q, &told); err != nil {
			return nil, p.failure(ctx, err)
		}
		for i, isScored := range told.Answer.Scored {
			if isScored && i < len(own) {
				own[i].Reward = nil
			}
		}
		return nil, nil
	})
}

// places are the rollouts that processes may have in flight. The time until one is free is not a rollout's.
type places chan struct{}

// Close implements io.Closer.
func (places) Close() error { return nil }

func (p *pythonWorkflow) places(host trinity.Host) (places, error) {
	most := p.Python.Rollouts(p.Class)
	key, err := json.Marshal([]any{most, &p.Python})
	if err != nil {
		return nil, err
	}
	opened, err := host.Open("workflow python "+string(key), func(log io.Writer) (io.Closer, error) {
		if at := p.Python.Concurrency; at > 1 {
			fmt.Fprintf(log, "up to %d rollouts are in flight in a process: task.seed is the only seed of theirs. With "+
				"python.concurrency 1, random, numpy.random and torch are seeded with it\n", at)
		}
		return make(places, most), nil
	})
	if err != nil {
		return nil, err
	}
	return opened.(places), nil
}

// toolLoop is the rollout with tools, which is no code of users.
const toolLoop = "trinity_go.tools.play"

// who returns the name of what users have written: the class, or the environment or tools of a rollout with tools.
func (p *pythonWorkflow) who() string {
	if strings.TrimPrefix(p.Class, "caller:") != toolLoop {
		return p.Class
	}
	if world, _ := p.Args["environment"].(string); world != "" {
		return world
	}
	tools, _ := p.Args["tools"].([]any)
	var names []string
	for _, tool := range tools {
		names = append(names, fmt.Sprint(tool))
	}
	return cmp.Or(strings.Join(names, ", "), p.Class)
}

// failure returns the failure of a rollout by the error of a question. A deadline that has passed keeps its kind.
func (p *pythonWorkflow) failure(ctx context.Context, err error) error {
	err = fmt.Errorf("%s: %w", p.who(), err)
	kind := trinity.FailedAgent
	if told := (*process.ToldError)(nil); errors.As(err, &told) && told.Kind != "" && ctx.Err() == nil {
		kind = trinity.FailureKind(told.Kind)
	}
	return &trinity.RolloutError{Kind: trinity.KindOf(err, kind), Err: err}
}
