package feed

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

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
	letRowsName(all, cfg.Plugin)
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
	if p.reward, err = registry.Rewards.Build(name, t.RewardArgs); err != nil {
		return p, err
	}
	if _, compares := p.reward.(trinity.GroupReward); compares && needs.RewardAtOnce {
		return p, fmt.Errorf("workflow %s reads the reward of each reply before the group has ended, and reward function %s compares "+
			"the replies after that: set default_reward_fn_type to a function that scores each reply alone", t.Workflow, name)
	}
	return p, nil
}

// checkSteps returns an error if the algorithm would compare the steps of one rollout with one another
// as if they were rollouts.
func (t *Taskset) checkSteps(s *config.Settled) error {
	a, parts := s.Method.Advantage, trinity.RequirementsOf(t.plugins.workflow).Parts
	if !t.Eval && a != nil && parts && (a.Needs().Steps || a.Needs().GreedyReward || a.Needs().Batch) {
		return s.At(t.Key, fmt.Sprintf("workflow %s gives experiences of several parts, and advantage_fn %s takes them for steps of a "+
			"rollout, or compares all of a batch", t.DefaultWorkflowType, s.Algorithm.AdvantageFn),
			"choose an advantage_fn that compares the rollouts of a task alone, such as grpo")
	}
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

// ownPlugins are the plug-ins that rows of a taskset name for themselves (format.workflow_key and
// format.reward_fn_key).
type ownPlugins struct {
	workflowKey, rewardKey string
	all                    []Taskset // of the stage
	plugin                 func(kind *registry.Catalog, name string, args map[string]any) (string, map[string]any)

	mu    sync.Mutex
	built map[[2]string]taskPlugins // by the names of the workflow and of the reward function
}

// letRowsName lets the rows of those tasksets name plug-ins whose format says where.
func letRowsName(all []Taskset, plugin func(*registry.Catalog, string, map[string]any) (string, map[string]any)) {
	for i := range all {
		if t := &all[i]; t.Format.WorkflowKey != "" || t.Format.RewardFnKey != "" {
			t.own = &ownPlugins{t.Format.WorkflowKey, t.Format.RewardFnKey, all, plugin, sync.Mutex{}, map[[2]string]taskPlugins{}}
		}
	}
}

// pluginsOf returns the plug-ins of a task: those that its row names, else the taskset's. It sets
// their names in the task.
func (t *Taskset) pluginsOf(task *trinity.Task) (p taskPlugins, err error) {
	if t.own == nil {
		return t.plugins, nil
	}
	o := t.own
	workflow, err := nameIn(task, o.workflowKey)
	if err != nil {
		return p, fmt.Errorf("format.workflow_key %q: %w", o.workflowKey, err)
	}
	reward, err := nameIn(task, o.rewardKey)
	if err != nil {
		return p, fmt.Errorf("format.reward_fn_key %q: %w", o.rewardKey, err)
	}
	task.Workflow, task.Reward = cmp.Or(workflow, task.Workflow), cmp.Or(reward, task.Reward)
	names := [2]string{task.Workflow, task.Reward}
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, ok := o.built[names]; ok {
		return p, nil
	}
	built := *task
	if workflow != "" {
		if built.Workflow, built.WorkflowArgs, err = o.named(registry.Workflows.Catalog, workflow, t.WorkflowArgs); err != nil {
			return p, fmt.Errorf("format.workflow_key %q: %w", o.workflowKey, err)
		}
	}
	if reward != "" {
		if built.Reward, built.RewardArgs, err = o.named(registry.Rewards.Catalog, reward, t.RewardFnArgs); err != nil {
			return p, fmt.Errorf("format.reward_fn_key %q: %w", o.rewardKey, err)
		}
	}
	if p, err = pluginsOf(&built); err != nil {
		return p, err
	}
	if trinity.RequirementsOf(p.workflow).Packs {
		return p, fmt.Errorf("format.workflow_key %q: workflow %s solves packs of tasks, and a row is one task: "+
			"make it the default_workflow_type of a taskset", o.workflowKey, task.Workflow)
	}
	if what := o.undeclared(p); what != "" {
		return p, fmt.Errorf("workflow %s with reward function %s needs %s, which no taskset's own plug-ins need: "+
			"make them the default_workflow_type and default_reward_fn_type of a taskset of their own",
			task.Workflow, cmp.Or(task.Reward, "of its own"), what)
	}
	o.built[names] = p
	return p, nil
}

// nameIn returns the name at a key of the row, "" if there is none. It returns an error if the value
// is no text.
func nameIn(task *trinity.Task, key string) (string, error) {
	value, ok := task.Field(key)
	if !ok || value == nil {
		return "", nil
	}
	name, ok := value.(string)
	if !ok {
		text, _ := task.Text(key)
		return "", fmt.Errorf("want a text, got %.40s", text)
	}
	return name, nil
}

// namesOf counts the rows that have the columns in which rows name their plug-ins.
type namesOf struct{ workflows, rewards int }

// count adds a row.
func (n *namesOf) count(task *trinity.Task, o *ownPlugins) {
	if _, ok := task.Field(o.workflowKey); ok {
		n.workflows++
	}
	if _, ok := task.Field(o.rewardKey); ok {
		n.rewards++
	}
}

// missing returns an error if no row of the dataset at a path has one of the columns: the
// configuration misspells it.
func (n *namesOf) missing(o *ownPlugins, path string) error {
	switch {
	case o.workflowKey != "" && n.workflows == 0:
		return fmt.Errorf("format.workflow_key %q: no row of %s has this column", o.workflowKey, path)
	case o.rewardKey != "" && n.rewards == 0:
		return fmt.Errorf("format.reward_fn_key %q: no row of %s has this column", o.rewardKey, path)
	}
	return nil
}

// named returns the plug-in that a row names, with those arguments that it has. A class of users has all.
func (o *ownPlugins) named(of *registry.Catalog, name string, args map[string]any) (string, map[string]any, error) {
	if plugin, all := o.plugin(of, name, args); plugin != name {
		return plugin, all, nil
	}
	if !of.Has(name) && registry.Nearest(name, of.Names()) == "" {
		return "", nil, fmt.Errorf("unknown %s %q: `trinity list %s` prints the names", of.Kind, name, of.Kind)
	}
	info, err := of.Explain(name)
	if err != nil {
		return "", nil, err
	}
	own := maps.Clone(args)
	maps.DeleteFunc(own, func(key string, _ any) bool {
		return !slices.ContainsFunc(info.Fields, func(f registry.Field) bool { return f.Key == key })
	})
	name, own = o.plugin(of, name, own)
	return name, own, nil
}

// undeclared returns what plug-ins need that the run opens only if the plug-ins of a taskset need it,
// and none does; "" if there is nothing.
func (o *ownPlugins) undeclared(p taskPlugins) string {
	tools, askers, models := false, []string{trinity.PolicyAsker}, []string{}
	for i := range o.all {
		declared := o.all[i].plugins.needs()
		tools = tools || declared.Tools
		for _, a := range declared.Askers {
			askers = append(askers, a.Name)
		}
		for _, m := range declared.RewardModels {
			models = append(models, m.Path)
		}
	}
	needs := p.needs()
	for _, a := range needs.Askers {
		if !slices.Contains(askers, a.Name) {
			return fmt.Sprintf("the model %q", a.Name)
		}
	}
	for _, m := range needs.RewardModels {
		if !slices.Contains(models, m.Path) {
			return "the reward model " + m.Path
		}
	}
	if needs.Tools && !tools {
		return "a policy that calls tools"
	}
	return ""
}

// needs returns what the workflow and the reward function need together.
func (p taskPlugins) needs() trinity.Requirements {
	w, r := trinity.RequirementsOf(p.workflow), trinity.RequirementsOf(p.reward)
	return trinity.Requirements{
		Tools: w.Tools, Askers: slices.Concat(w.Askers, r.Askers), RewardModels: slices.Concat(w.RewardModels, r.RewardModels),
	}
}
