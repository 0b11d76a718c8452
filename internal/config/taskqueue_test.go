package config

import (
	"slices"
	"strings"
	"testing"
)

const tasksetKey = "buffer.explorer_input.taskset"

var queued = []string{tasksetKey + ".storage_type=queue", "buffer.total_steps=10"}

// Each case is an override of a run that reads its tasks from a queue, and the error.
func TestRefusedWithAQueueOfTasks(t *testing.T) {
	const input, several = "buffer.explorer_input.", "={taskset: null, default_workflow_type: math_workflow, tasksets: "
	for _, c := range []struct{ override, key, words string }{
		{"buffer.total_steps=null", tasksetKey + ".storage_type", "a queue has no length that a number of steps could follow from; " +
			"set buffer.total_steps"},
		{tasksetKey + ".path=tasks.parquet", tasksetKey + ".path", "tasks.parquet is no JSON Lines file"},
		{tasksetKey + ".path=tasks.jsonl.gz", tasksetKey + ".path", "name a file that ends in .jsonl"},
		{tasksetKey + ".path=sqlite:///tasks.jsonl", tasksetKey + ".path", "name a file that ends in .jsonl"},
		{tasksetKey + ".path=org/tasks", tasksetKey + ".path", "name a file that ends in .jsonl"},
		{tasksetKey + ".data_selector.selector_type=shuffle", tasksetKey + ".data_selector.selector_type",
			"is shuffle, and the tasks of a queue are taken in order"},
		{tasksetKey + ".data_selector.feature_keys=[a]", tasksetKey + ".data_selector.feature_keys",
			"the tasks of a queue are taken in order; leave it out"},
		{tasksetKey + ".weight=2", tasksetKey + ".weight", "a queue is the only training taskset"},
		{tasksetKey + ".max_read_timeout=0", tasksetKey + ".max_read_timeout", "must be more than 0"},
		{input + "eval_tasksets.0.storage_type=queue", input + "eval_tasksets.0.storage_type",
			"an evaluation runs every row, and a queue has no last one; use storage_type file"},
		{"data_processor.task_pipeline={inputs: [a.jsonl], operators: [{name: text_length_filter}]}", "data_processor.task_pipeline",
			"its output is a queue of tasks"},
		{"buffer.explorer_input" + several + "[{path: a.jsonl}, {path: b.jsonl, storage_type: queue}]}", input + "tasksets.1.storage_type",
			"a queue is the only training taskset of a run"},
	} {
		_, err := parse(t, base, Options{Overrides: append(slices.Clone(queued), c.override)})
		if err == nil || !strings.Contains(err.Error(), c.key+": ") || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %s: %s", c.override, err, c.key, c.words)
		}
	}
	mustParse(t, base, Options{Overrides: append(queued, tasksetKey+".path=tasks.ndjson")})
	mustParse(t, base, Options{Overrides: []string{queued[0], "mode=train", "buffer.train_batch_size=4"}}) // it reads no tasks
}

func TestPlanOfAQueueOfTasks(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: append(queued, tasksetKey+".max_read_timeout=90", tasksetKey+".enable_progress_bar=true",
		tasksetKey+".split=train", "buffer.explorer_input.eval_tasksets.0.max_read_timeout=3")})
	p, err := c.Plan(Facts{Rows: map[string]int{tasksetKey: 7}})
	if err != nil {
		t.Fatal(err)
	}
	serves := mustParse(t, base, Options{Overrides: append(slices.Clone(queued), "mode=serve")})
	if p, err := serves.Plan(Facts{}); err != nil || strings.Contains(p.String(), "rows now") {
		t.Errorf("mode serve reads no tasks: %v\n%s", err, p)
	}
	const tasks = "tasks        train: from the queue train.jsonl (7 rows now), in order, each once, until a line null ends it; " +
		"a step waits at most 1m30s for each"
	for _, words := range []string{"10 steps of 4 tasks", tasks} {
		if !strings.Contains(p.String(), words) {
			t.Errorf("no %q in\n%s", words, p)
		}
	}
	unused := map[string]string{}
	for _, n := range c.settled[0].Unused() {
		unused[n.Key] = n.Reason
	}
	if len(unused) != 2 || unused[tasksetKey+".enable_progress_bar"] == "" ||
		unused["buffer.explorer_input.eval_tasksets.0.max_read_timeout"] == "" {
		t.Errorf("unused are %v", unused)
	}
}

// The trainer waits for the tasks of all steps that its batch needs, and in sync_style fixed for those
// of all steps before the next version.
func TestTaskWaitOfAQueue(t *testing.T) {
	for _, c := range []struct {
		overrides string
		want      float64
	}{
		{"", 4 * 90},
		{"synchronizer.sync_interval=3", 3 * 4 * 90},
		{"synchronizer.sync_interval=3 synchronizer.sync_style=fully_async", 4 * 90},
		{"synchronizer.sync_style=fully_async algorithm.repeat_times=2 buffer.train_batch_size=20", 3 * 4 * 90},
		{"synchronizer.sync_style=fully_async algorithm.repeat_times=2 buffer.train_batch_size=2", 4 * 90},
		{"mode=train algorithm.repeat_times=2 buffer.train_batch_size=20", 3 * 4 * 90}, // of an explorer in another process
		{tasksetKey + ".storage_type=file", 0},
	} {
		overrides := append(slices.Clone(queued), tasksetKey+".max_read_timeout=90")
		s := mustParse(t, base, Options{Overrides: append(overrides, strings.Fields(c.overrides)...)}).settled[0]
		if got := s.TaskWait(); got != c.want {
			t.Errorf("%q: %v s, want %v", c.overrides, got, c.want)
		}
	}
}
