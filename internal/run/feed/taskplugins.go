package feed

import (
	"cmp"
	"fmt"
	"iter"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
)

// Taskset is a taskset of the configuration, with its plug-ins.
type Taskset struct {
	config.TasksetEntry
	Template trinity.Task // its fields are the same in all tasks
	plugins  taskPlugins
	own      *ownPlugins        // nil if the rows name none
	Text     *renderer.Renderer // of the model; nil if it is not known or has no tokenizer
}

// taskPlugins are the workflow and the reward function of a taskset's tasks.
type taskPlugins struct {
	workflow trinity.Workflow
	reward   trinity.RewardFunc // nil if the task names none and the workflow has no default
}

// Tasksets builds the tasksets that a stage rolls out, with their plug-ins.
func Tasksets(cfg *config.Settled) (all []Taskset, err error) {
	for _, entry := range cfg.Data.Tasksets {
		if !entry.Eval && !cfg.Explores || !cfg.Samples {
			continue
		}
		t := Taskset{TasksetEntry: entry, Template: template(cfg, entry)}
		if t.plugins, err = pluginsOf(&t.Template); err != nil {
			return nil, fmt.Errorf("taskset %s: %w", t.Name, err)
		}
		if err := t.checkSteps(cfg); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	letRowsName(all)
	return all, nil
}

// Needs returns what the workflow and the reward function of the taskset need, by the key of their arguments
// with a dot after it.
func (t *Taskset) Needs() iter.Seq2[string, trinity.Requirements] {
	return func(yield func(string, trinity.Requirements) bool) {
		_ = yield(t.Key+".workflow_args.", trinity.RequirementsOf(t.plugins.workflow)) &&
			yield(t.Key+".reward_fn_args.", trinity.RequirementsOf(t.plugins.reward))
	}
}

// pluginsOf builds the plug-ins that a task names.
func pluginsOf(t *trinity.Task) (p taskPlugins, err error) {
	if t.Workflow == "" {
		return p, fmt.Errorf("names no workflow: set default_workflow_type")
	}
	if p.workflow, err = registry.Workflows.Build(t.Workflow, t.WorkflowArgs); err != nil {
		return p, err
	}
	needs := trinity.RequirementsOf(p.workflow)
	name := cmp.Or(t.Reward, needs.DefaultReward)
	if name == "" {
		if needs.Reward {
			err = fmt.Errorf("workflow %s needs a reward function: set default_reward_fn_type", t.Workflow)
		}
		return p, err
	}
	p.reward, err = registry.Rewards.Build(name, t.RewardArgs)
	return p, err
}

// checkSteps returns an error if the algorithm would compare the steps of one rollout with one another
// as if they were rollouts.
func (t *Taskset) checkSteps(s *config.Settled) error {
	a := s.Method.Advantage
	if t.Eval || a == nil || !a.Needs().Group || a.Needs().Steps || !trinity.RequirementsOf(t.plugins.workflow).Steps {
		return nil
	}
	return s.At(t.Key, fmt.Sprintf("each reply of workflow %s is an experience, and advantage_fn %s knows no steps: it compares experiences "+
		"as if each were a rollout", t.DefaultWorkflowType, s.Algorithm.AdvantageFn),
		"choose an advantage_fn that knows steps ("+strings.Join(knowSteps(), ", ")+"), or a workflow that returns one sequence")
}

// knowSteps lists the advantage functions that compare rollouts of several steps.
func knowSteps() (names []string) {
	for _, name := range registry.Advantages.Names() {
		if registry.Advantages.Default(name).(trinity.Advantage).Needs().Steps {
			names = append(names, name)
		}
	}
	return names
}

// checks lists the functions of the plug-ins that check rows. The reward function's counts only if
// the workflow always scores with it.
func (p taskPlugins) checks() (checks []func(*trinity.Task) error) {
	needs := trinity.RequirementsOf(p.workflow)
	if needs.CheckTask != nil {
		checks = append(checks, needs.CheckTask)
	}
	if check := trinity.RequirementsOf(p.reward).CheckTask; check != nil && needs.Reward {
		checks = append(checks, check)
	}
	return checks
}
