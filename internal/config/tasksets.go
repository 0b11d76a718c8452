package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

// TasksetEntry is a taskset with its place in the file.
type TasksetEntry struct {
	Taskset
	Key   string // dotted path of the taskset
	Index int    // among the training or the evaluation tasksets
	Eval  bool
}

// tasksetPlace is a taskset in the configuration, which settle completes.
type tasksetPlace struct {
	set   *Taskset
	key   string
	index int
	eval  bool
}

// tasksets lists the training tasksets, then the evaluation tasksets.
func (in *ExplorerInput) tasksets() (all []tasksetPlace) {
	const root = "buffer.explorer_input."
	if in.Taskset != nil {
		all = append(all, tasksetPlace{in.Taskset, root + "taskset", 0, false})
	}
	for i := range in.Tasksets {
		all = append(all, tasksetPlace{&in.Tasksets[i], root + "tasksets." + digits(i), i, false})
	}
	for i := range in.EvalTasksets {
		all = append(all, tasksetPlace{&in.EvalTasksets[i], root + "eval_tasksets." + digits(i), i, true})
	}
	return all
}

// entriesOf returns the tasksets as they are now.
func entriesOf(places []tasksetPlace) (all []TasksetEntry) {
	for _, p := range places {
		all = append(all, TasksetEntry{*p.set, p.key, p.index, p.eval})
	}
	return all
}

// merged returns the entries of all maps; later maps win.
func merged(all ...map[string]any) map[string]any {
	var out map[string]any
	for _, m := range all {
		if len(m) > 0 && out == nil {
			out = map[string]any{}
		}
		maps.Copy(out, m)
	}
	return out
}

const actorKey = "trainer.trainer_config.actor_rollout_ref.actor"

func valueOf[T any](p *T) reflect.Value { return reflect.ValueOf(p).Elem() }

// IsQueue reports whether the tasks arrive while the run goes on.
func (t *Taskset) IsQueue() bool { return t.StorageType == "queue" }

// TaskWait returns how many seconds tasks that come from a queue may delay a batch of the trainer, or
// the explore steps with one version; 0 if none do. The waits of explorer and trainer for one another
// are longer by it.
func (s *Settled) TaskWait() float64 {
	for _, t := range s.Data.Tasksets {
		if !t.Eval && t.IsQueue() {
			steps := max(1, ceil(s.Batch.Rollouts, s.Batch.StepRollouts))
			if s.Synchronizer.SyncStyle == "fixed" {
				steps = max(steps, *s.Synchronizer.ExplorerSyncInterval)
			}
			return t.MaxReadTimeout * float64(s.Buffer.BatchSize*steps)
		}
	}
	return 0
}

// queueWords describes the queue of a taskset that has so many rows now.
func (t *Taskset) queueWords(rows int) string {
	return fmt.Sprintf("%s: from the queue %s (%d rows now), in order, each once, until a line null ends it; a step waits at most %s for each",
		t.Name, t.Path, rows, wait.Text(wait.Seconds(t.MaxReadTimeout)))
}

// checkQueue checks a taskset whose tasks come from a queue.
func (t TasksetEntry) checkQueue(r report, data *Data, buffer *Buffer, pipeline *TaskPipeline) {
	const others = "use storage_type file, sql or task_dir"
	storage := t.Key + ".storage_type"
	if t.Eval {
		r.fail(storage, "an evaluation runs every row, and a queue has no last one", others)
		return
	}
	if slices.ContainsFunc(data.Tasksets, func(o TasksetEntry) bool { return !o.Eval && o.Key != t.Key }) {
		r.fail(storage, "a queue is the only training taskset of a run, since nobody knows its share of the tasks", others)
	}
	if end := filepath.Ext(t.Path); t.Path != "" && (dburl.IsURL(t.Path) || end != ".jsonl" && end != ".ndjson") {
		r.fail(t.Key+".path", fmt.Sprintf("%s is no JSON Lines file, to which another process can append tasks", t.Path),
			"name a file that ends in .jsonl; it may come into being later")
	}
	if buffer.TotalSteps == nil {
		r.fail(storage, "a queue has no length that a number of steps could follow from",
			"set buffer.total_steps; the run ends earlier if the queue does")
	}
	if c := &t.DataSelector; c.SelectorType != newDefault[DataSelector]().SelectorType {
		r.fail(t.Key+".data_selector.selector_type", fmt.Sprintf("is %s, and the tasks of a queue are taken in order", c.SelectorType),
			"leave it out")
	} else if len(c.FeatureKeys) > 0 {
		r.fail(t.Key+".data_selector.feature_keys", "the tasks of a queue are taken in order", "leave it out")
	}
	if t.Weight != nil {
		r.fail(t.Key+".weight", "a queue is the only training taskset of a run", "leave it out")
	}
	if p := pipeline; p != nil && p.Output != nil && p.Output.Path == t.Path {
		r.fail(taskPipelineKey, "its output is a queue of tasks, and it writes whole files", "set storage_type of the taskset to file")
	}
}

var unusedOfTasksets = []unusedKey{
	{"buffer.explorer_input.eval_tasksets.*.data_selector", always("an evaluation takes all rows, in order")},
	{"buffer.explorer_input.eval_tasksets.*.teacher", always("a run does not learn from an evaluation")},
	{"buffer.explorer_input.eval_tasksets.*.weight", always("an evaluation takes all rows")},
	{"buffer.explorer_input.taskset.weight", always("it is the only taskset")},
	{"*", func(s *Settled, key string) string {
		for _, t := range s.Data.Tasksets {
			switch {
			case key == t.Key+".max_read_timeout" && !t.IsQueue():
				return "all rows are there: only storage_type queue waits for them"
			case key == t.Key+".enable_progress_bar" && t.IsQueue():
				return "the rows of a queue are read as they arrive"
			}
		}
		return ""
	}},
}

// StorePlace is implemented by a buffer plug-in that decides where it may be stored.
type StorePlace interface {
	// DefaultPath returns the path of a named buffer whose file sets no path. dir is the directory of
	// the run's buffers.
	DefaultPath(dir, name string) string
	// CheckPath returns an error for a path that the buffer does not support.
	CheckPath(path string) error
}

// storedRows is a section that names rows: a taskset or a dataset.
type storedRows struct{ key, storage, path string }

func (d *Data) datasets(buffer *Buffer, w Work) []storedRows {
	var all []storedRows
	for _, t := range d.Tasksets {
		all = append(all, storedRows{t.Key, t.StorageType, t.Path})
	}
	for _, b := range d.Besides() {
		all = append(all, storedRows{b.Key, b.StorageType, b.Path})
	}
	if b := buffer.TrainerInput.ExperienceBuffer; w.ReadsDataset {
		all = append(all, storedRows{storeKey, b.StorageType, b.Path})
	}
	return all
}

// unusedChoice returns why split or subset_name has no meaning for the path of a section, "" if it has one.
func unusedChoice(s *Settled, key string) string {
	for _, d := range s.Data.datasets(&s.Buffer, s.Work) {
		split := key == d.key+".split"
		switch {
		case !split && key != d.key+".subset_name":
		case d.storage == "task_dir":
			return "every folder of the path is a task: there are neither splits nor subsets"
		case split && dburl.IsURL(d.path):
			return "a database has no splits: subset_name chooses rows"
		case isFile(d.path):
			return "the path is one file, all of whose rows are read: name a directory to choose a split or subset of it"
		}
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// checkTasksets checks every taskset that is going to run.
func checkTasksets(r report, buffer *Buffer, data *Data, model *Model, pipeline *TaskPipeline, w Work) {
	names := map[string]string{}
	for _, t := range data.Tasksets {
		if !t.Eval && !w.Explores {
			continue
		}
		if t.Path == "" {
			r.fail(t.Key+".path", "the taskset has no path", "set the path of a file, a directory or a hub dataset")
		}
		if wrong := wrongName(t.Name); wrong != "" {
			r.fail(t.Key+".name", wrong, "it is part of metrics")
		}
		if t.DefaultWorkflowType == "" {
			r.fail(t.Key, "the taskset has no workflow", "set default_workflow_type here or in buffer.explorer_input")
		}
		if lacksReward(t) {
			r.fail(t.Key, fmt.Sprintf("the workflow %s needs a reward function", t.DefaultWorkflowType),
				"set default_reward_fn_type here or in buffer.explorer_input")
		}
		if n := *t.RolloutArgs.MaxTokens; n > *model.MaxModelLen {
			r.fail(t.Key+".rollout_args.max_tokens", fmt.Sprintf("is %d, more than model.max_model_len %d", n, *model.MaxModelLen), "")
		}
		model.checkTasksetAdapter(r, w, t)
		if t.IsQueue() {
			t.checkQueue(r, data, buffer, pipeline)
		}
		kind := fmt.Sprint(t.Eval, t.Name)
		if other, twice := names[kind]; twice {
			r.fail(t.Key+".name", fmt.Sprintf("%q is also the name of %s", t.Name, other), "metrics need different names")
		}
		names[kind] = t.Key
	}
}

// lacksReward reports whether a taskset's workflow needs a reward function, has no default, and the
// file names none.
func lacksReward(t TasksetEntry) bool {
	w, err := registry.Workflows.Build(t.DefaultWorkflowType, t.WorkflowArgs)
	needs := trinity.RequirementsOf(w)
	return err == nil && needs.Reward && t.DefaultRewardFnType == "" && needs.DefaultReward == ""
}

// settleTasksets fills in tasksets from the defaults of explorer_input and the sampling of the rollout model.
func settleTasksets(r report, buffer *Buffer, sets []tasksetPlace, explorer *Explorer, method *Method) {
	in, m := &buffer.ExplorerInput, &explorer.RolloutModel
	if in.DefaultEvalWorkflowType == "" {
		in.DefaultEvalWorkflowType = in.DefaultWorkflowType
	}
	for _, e := range sets {
		t, name, workflow := e.set, "taskset", in.DefaultWorkflowType
		if e.eval {
			name, workflow = "eval_taskset", in.DefaultEvalWorkflowType
		}
		setDefault(&t.Name, name+"_"+strconv.Itoa(e.index))
		setDefault(&t.DefaultWorkflowType, workflow)
		setDefault(&t.DefaultRewardFnType, in.DefaultRewardFnType)
		t.Format.chats(r.IsSet, e.key+".format.")
		inherit(&t.RolloutArgs.Temperature, m.Temperature)
		inherit(&t.RolloutArgs.TopP, m.TopP)
		inherit(&t.RolloutArgs.TopK, m.TopK)
		inherit(&t.RolloutArgs.Logprobs, m.Logprobs)
		inherit(&t.RolloutArgs.MaxTokens, m.MaxResponseTokens)
		if !e.eval {
			t.RepeatTimes = method.GroupSize
		}
	}
}

// chats makes messages_key the key of the prompts of a taskset whose section names it and not prompt_key.
func (f *Format) chats(isSet func(key string) bool, key string) {
	if isSet(key+"messages_key") && !isSet(key+"prompt_key") && f.PromptType == "messages" {
		f.PromptKey = f.MessagesKey
	}
}

// moveTaskSelector moves the section task_selector to its new name, data_selector, and replaces the old
// name of a selector in it.
func moveTaskSelector(r report, owner string, old **DataSelector, now *DataSelector) {
	defer respell(r, owner+".data_selector.selector_type", &now.SelectorType, selectorAliases)
	if *old == nil {
		return
	}
	key := owner + ".task_selector"
	if r.IsSet(owner + ".data_selector") {
		r.fail(key, "is the old name of data_selector, which is set as well", "keep data_selector alone")
		return
	}
	r.warn(key, "is the old name of data_selector")
	*now, *old = **old, nil
}
