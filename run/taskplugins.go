package run

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/registry"
)

// taskPlugins are the workflow and the reward function of a taskset's tasks.
type taskPlugins struct {
	workflow trinity.Workflow
	reward   trinity.RewardFunc // nil if the task names none and the workflow has no default
	name     string             // of the reward function
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
	if p.name = first(t.Reward, needs.DefaultReward); p.name == "" {
		if needs.Reward {
			err = fmt.Errorf("workflow %s needs a reward function: set default_reward_fn_type", t.Workflow)
		}
		return p, err
	}
	p.reward, err = registry.Rewards.Build(p.name, t.RewardArgs)
	return p, err
}

// rewardModels lists the reward models that the plug-ins require.
func (p taskPlugins) rewardModels() []trinity.RewardModelSpec {
	return append(trinity.RequirementsOf(p.workflow).RewardModels, trinity.RequirementsOf(p.reward).RewardModels...)
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

// requiredRewardModel is a reward model that a taskset's plug-ins require.
type requiredRewardModel struct {
	trinity.RewardModelSpec
	key string // dotted path of the argument that names it
}

// rewardModelsOf lists the reward models that the tasksets of a configuration require.
func rewardModelsOf(cfg *config.Settled) (all []requiredRewardModel) {
	s := stage{cfg: cfg, groupSize: cfg.Method.GroupSize}
	for _, t := range cfg.Data.Tasksets {
		template := s.template(t.Taskset, t.Eval)
		p, err := pluginsOf(&template)
		if err != nil {
			continue // the rules of config report it
		}
		for _, spec := range trinity.RequirementsOf(p.workflow).RewardModels {
			all = append(all, requiredRewardModel{spec, t.Key + ".workflow_args." + spec.Arg})
		}
		for _, spec := range trinity.RequirementsOf(p.reward).RewardModels {
			all = append(all, requiredRewardModel{spec, t.Key + ".reward_fn_args." + spec.Arg})
		}
	}
	return all
}
