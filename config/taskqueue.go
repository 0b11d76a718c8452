package config

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/wait"
)

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
func (t TasksetEntry) checkQueue(r *rules) {
	const others = "use storage_type file, sql or task_dir"
	storage := t.Key + ".storage_type"
	if t.Eval {
		r.fail(storage, "an evaluation runs every row, and a queue has no last one", others)
		return
	}
	if slices.ContainsFunc(r.Data.Tasksets, func(o TasksetEntry) bool { return !o.Eval && o.Key != t.Key }) {
		r.fail(storage, "a queue is the only training taskset of a run, since nobody knows its share of the tasks", others)
	}
	if end := filepath.Ext(t.Path); t.Path != "" && (dburl.IsURL(t.Path) || end != ".jsonl" && end != ".ndjson") {
		r.fail(t.Key+".path", fmt.Sprintf("%s is no JSON Lines file, to which another process can append tasks", t.Path),
			"name a file that ends in .jsonl; it may come into being later")
	}
	if r.Buffer.TotalSteps == nil {
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
	if p := r.TaskPipeline; p != nil && p.Output != nil && p.Output.Path == t.Path {
		r.fail(taskPipelineKey, "its output is a queue of tasks, and it writes whole files", "set storage_type of the taskset to file")
	}
}

var unusedOfTasksets = []unusedKey{
	{"buffer.explorer_input.eval_tasksets.*.data_selector", always("an evaluation takes all rows, in order")},
	{"buffer.explorer_input.eval_tasksets.*.teacher", always("a run does not learn from an evaluation")},
	{"buffer.explorer_input.eval_tasksets.*.weight", always("an evaluation takes all rows")},
	{"buffer.explorer_input.taskset.weight", always("it is the only taskset")},
	{"buffer", func(s *Settled, key string) string {
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
