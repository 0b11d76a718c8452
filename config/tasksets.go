package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

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

// changes returns the parts and arguments that section algorithm sets.
func (a *Algorithm) changes() trinity.Algorithm {
	return trinity.Algorithm{
		Type:      a.AlgorithmType,
		Advantage: a.AdvantageFn, AdvantageArgs: a.AdvantageFnArgs,
		PolicyLoss: a.PolicyLossFn, PolicyLossArgs: a.PolicyLossFnArgs, LossAggMode: a.LossAggMode,
		KLPenalty: a.KLPenaltyFn, KLPenaltyArgs: a.KLPenaltyFnArgs,
		KLLoss: a.KLLossFn, KLLossArgs: a.KLLossFnArgs,
		Entropy: a.EntropyLossFn, EntropyArgs: a.EntropyLossFnArgs,
		SampleStrategy: a.SampleStrategy, SampleStrategyArgs: a.SampleStrategyArgs,
	}
}

// policyLoss returns a policy loss with its defaults, nil if there is none of that name.
func policyLoss(name string) any {
	if losses, ok := registry.Find("policy_loss_fn"); ok {
		return losses.Default(name)
	}
	return nil
}

// policyNeeds returns what the policy loss needs from the trainer.
func policyNeeds(a *trinity.Algorithm) trinity.Needs {
	if in, ok := policyLoss(a.PolicyLoss).(interface{ Needs() trinity.Needs }); ok {
		return in.Needs()
	}
	return trinity.Needs{}
}

// weighs reports whether a KL term has an effect: it is neither none nor switched off by kl_coef 0.
func weighs(name string, args map[string]any) bool {
	coef, set := args["kl_coef"]
	return !named(name, "", "none") && !(set && (coef == 0 || coef == 0.0))
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

// actor returns a value from veRL's actor section.
func (t *Trainer) actor(key string) any {
	tree, _ := t.TrainerConfig["actor_rollout_ref"].(map[string]any)
	actor, _ := tree["actor"].(map[string]any)
	return actor[key]
}

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
