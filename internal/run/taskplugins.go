package run

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/registry"
)

// taskPlugins are the workflow and the reward function of a taskset's tasks.
type taskPlugins struct {
	workflow trinity.Workflow
	reward   trinity.RewardFunc // nil if the task names none and the workflow has no default
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
func (t *tasks) checkSteps(s *config.Settled) error {
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

// rewardModels lists the reward models that the plug-ins of a taskset require.
func (t *tasks) rewardModels() (all []rewardModel) {
	for _, spec := range trinity.RequirementsOf(t.plugins.workflow).RewardModels {
		all = append(all, rewardModel{RewardModelSpec: spec, key: t.Key + ".workflow_args." + spec.Arg})
	}
	for _, spec := range trinity.RequirementsOf(t.plugins.reward).RewardModels {
		all = append(all, rewardModel{RewardModelSpec: spec, key: t.Key + ".reward_fn_args." + spec.Arg})
	}
	return all
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
