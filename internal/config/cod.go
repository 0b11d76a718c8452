package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/registry"
)

const codArgsKey = "cod.cod_workflow_args"

// isPacked reports whether a taskset's workflow solves packs.
func isPacked(t TasksetEntry) bool {
	return registry.Workflows.Has(t.DefaultWorkflowType) &&
		trinity.RequirementsOf(registry.Workflows.Default(t.DefaultWorkflowType)).Packs
}

// PackSize returns how many tasks of a taskset a rollout solves as a pack, 0 if its workflow solves
// single tasks.
func (c *Cod) PackSize(t TasksetEntry) int {
	switch {
	case !isPacked(t):
		return 0
	case t.Eval && c.EvalTaskPackSize != nil:
		return *c.EvalTaskPackSize
	}
	return c.TaskPackSize
}

// ArgsOfWorkflow returns the arguments of a taskset's workflow. If it solves packs, they include those
// of section cod that the taskset does not set.
func (c *Cod) ArgsOfWorkflow(t TasksetEntry) map[string]any {
	if len(c.CodWorkflowArgs) == 0 || !isPacked(t) {
		return t.WorkflowArgs
	}
	own, isMap := t.WorkflowArgs["cod"].(map[string]any)
	if t.WorkflowArgs["cod"] != nil && !isMap {
		return t.WorkflowArgs // an error
	}
	return merged(t.WorkflowArgs, map[string]any{"cod": merged(c.CodWorkflowArgs, own)})
}

// packs returns how many groups an explore step of so many tasks has.
func (cod *Cod) packs(r report, data *Data, tasks int) int {
	for _, t := range data.Tasksets {
		if size := cod.PackSize(t); size > 0 && !t.Eval {
			return max(1, tasks/size)
		}
	}
	return tasks
}

// placePackErrors places errors since the first of them at section cod if they are about its
// arguments, and drops those that another taskset has had. Errors of the taskset's own arguments stay.
func (p pluginCheck) placePackErrors(t TasksetEntry, first int) {
	const own = "cod"
	kept := (*p.errs)[:first]
	isOwn := func(e Error) bool { // it is there without section cod
		return slices.ContainsFunc(registry.Workflows.Check(t.DefaultWorkflowType, t.WorkflowArgs), func(wrong registry.ArgError) bool {
			return tags.Join(t.Key+".workflow_args", wrong.Key) == e.Key
		})
	}
	for _, e := range (*p.errs)[first:] {
		rest, ofSection := strings.CutPrefix(e.Key, t.Key+".workflow_args."+own)
		if ofSection && !isOwn(e) {
			key := codArgsKey + rest
			if p.seen[key] {
				continue
			}
			p.seen[key] = true
			at := p.errorFor(key, e.Message, e.Hint)
			at.Unsupported = e.Unsupported
			e = at
		}
		kept = append(kept, e)
	}
	*p.errs = kept
}

// checkPacking checks that tasks can be packed as section cod says.
func (cod *Cod) checkPacking(r report, buffer *Buffer, data *Data, w Work) {
	some, known := false, true
	var packed, single string // keys of training tasksets
	for _, t := range data.Tasksets {
		known = known && registry.Workflows.Has(t.DefaultWorkflowType)
		some = some || isPacked(t)
		if isPacked(t) && (t.Format.WorkflowKey != "" || t.Format.RewardFnKey != "") {
			r.fail(t.Key+".format", "the tasks of a pack have one workflow and one reward function",
				"leave workflow_key and reward_fn_key out")
		}
		switch {
		case t.Eval || !w.Explores:
		case isPacked(t):
			packed = t.Key
		default:
			single = t.Key
		}
	}
	size := cod.TaskPackSize
	switch {
	case known && !some && len(data.Tasksets) > 0 && !reflect.DeepEqual(*cod, *newDefault[Cod]()):
		r.fail("cod", "no taskset has a workflow that solves packs of tasks", "leave the section out, or choose one: trinity list workflow")
	case packed != "" && single != "" && known:
		r.fail(packed, fmt.Sprintf("its workflow solves packs of tasks, and that of %s solves single tasks", single),
			"train on them in stages of their own")
	case packed != "" && size > 0 && buffer.BatchSize%size != 0:
		r.fail("buffer.batch_size", fmt.Sprintf("is %d tasks, no multiple of the %d tasks of a pack", buffer.BatchSize, size),
			"change it or cod.task_pack_size")
	}
}

// Cod is Connect-the-Dots: a rollout solves a pack of tasks one after the other, with hints to
// itself. It is for workflows that solve packs.
type Cod struct {
	// Tasks per pack. buffer.batch_size, which counts tasks, must be a multiple.
	TaskPackSize int `yaml:"task_pack_size" default:"4" range:"[1,)"`
	// Tasks per pack of an evaluation; not set is task_pack_size.
	EvalTaskPackSize *int `yaml:"eval_task_pack_size" range:"[1,)"`
	// How tasks are packed: cod, which packs rows as they come.
	PackingStrategy string `yaml:"packing_strategy" default:"cod"`
	// Arguments of all workflows that solve packs: their argument cod.
	CodWorkflowArgs map[string]any `yaml:"cod_workflow_args"`
}
