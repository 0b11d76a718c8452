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
	return taskName(t.Explorer, t.Template.Taskset, row)
}

// taskName is that of a row of a taskset, or of what else an explorer reads; explorer is "" where there is one.
func taskName(explorer, set string, row int) string {
	name := fmt.Sprintf("%s/%d", set, row)
	if explorer != "" {
		name = explorer + ":" + name
	}
	return name
}

// again is the name of a task that comes for the n-th time in a step: it is a group of its own.
func again(name string, n int) string {
	if n > 1 {
		name += fmt.Sprintf("#%d", n)
	}
	return name
}

// choose takes the next n rows.
func (t *Taskset) choose(n int) (chosen, error) {
	rows, err := t.Selector.Next(n)
	if err != nil {
		return chosen{}, fmt.Errorf("taskset %s: %w", t.Template.Taskset, err)
	}
	return chosen{t.Template.Taskset, rows}, nil
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
		times[row]++
		task.ID = again(task.ID, times[row]) // it samples anew
		tasks[i] = task
	}
	return tasks, nil
}
