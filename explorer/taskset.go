// Package explorer is the rollout loop: it chooses tasks, runs their workflows against the model with bounded concurrency, timeouts and
// retries, and delivers groups of experiences.
package explorer

import (
	"fmt"

	"github.com/trinity-go/trinity"
)

// Taskset is a dataset with the way its rows are chosen and run.
type Taskset struct {
	Data     trinity.Dataset
	Selector trinity.Selector // nil for evaluation: every row once, in order
	Template trinity.Task     // everything of a task but ID, Index and Row
	Workflow trinity.Workflow
	Weight   float64 // in a [Mix]; 0 is the number of rows
	Explorer string  // name of one of several explorers, which its tasks bear; "" where there is one
}

// task makes the task of one row.
func (t *Taskset) task(row int) (*trinity.Task, error) {
	data, err := t.Data.Row(row)
	if err != nil {
		return nil, fmt.Errorf("taskset %s, row %d: %w", t.Template.Taskset, row, err)
	}
	task := t.Template
	task.ID, task.Index, task.Row = t.name(row), row, data
	return &task, nil
}

// name is unique among the tasks of a step, of all explorers.
func (t *Taskset) name(row int) string {
	if share, ok := t.Data.(*Share); ok {
		row = share.number(row)
	}
	name := fmt.Sprintf("%s/%d", t.Template.Taskset, row)
	if t.Explorer != "" {
		name = t.Explorer + ":" + name
	}
	return name
}

// next makes the tasks of the next n rows.
func (t *Taskset) next(n int) ([]*trinity.Task, error) {
	rows, err := t.Selector.Next(n)
	if err != nil {
		return nil, fmt.Errorf("taskset %s: %w", t.Template.Taskset, err)
	}
	return t.tasks(rows)
}

func (t *Taskset) all() ([]*trinity.Task, error) {
	rows := make([]int, t.Data.Len())
	for i := range rows {
		rows[i] = i
	}
	return t.tasks(rows)
}

func (t *Taskset) tasks(rows []int) ([]*trinity.Task, error) {
	tasks := make([]*trinity.Task, len(rows))
	times := map[int]int{}
	for i, row := range rows {
		task, err := t.task(row)
		if err != nil {
			return nil, err
		}
		if times[row]++; times[row] > 1 { // it samples anew, and is a group of its own
			task.ID += fmt.Sprintf("#%d", times[row])
		}
		tasks[i] = task
	}
	return tasks, nil
}
