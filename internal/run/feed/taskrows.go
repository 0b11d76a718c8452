package feed

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/selector"
)

// mostRows is the number of rows of a taskset that check reads, if its rows name no plug-ins. A wrong
// key is wrong in all rows, and reading a large taskset would delay the run.
const mostRows = 1 << 14

// Check returns an error if the workflow cannot ask or the reward function cannot score a row, as
// far as the row alone shows it. The error describes the first such row and counts them.
func (t *Taskset) Check(data rowsOfTasks) error {
	names := namesOf{}
	err := t.checkRows(data, 0, data.Len(), &names)
	if err != nil || t.own == nil {
		return err
	}
	return names.missing(t.own, safetext.Hidden(t.Path))
}

// rowsOfTasks are the rows of a taskset, with their places for errors.
type rowsOfTasks interface {
	selector.Dataset
	Where(i int) string
}

// here opens the rows of a taskset. It returns nil if they are not on this machine.
func (t *Taskset) here() (rowsOfTasks, error) {
	if t.IsQueue() {
		return openQueue(t, nil)
	}
	path, _ := Local(t.Path, true)
	if path == "" {
		return nil, nil
	}
	return OpenRows(context.Background(), path, tasksOf(&t.Taskset))
}

// checkRows checks rows from a number up to another, and counts those that name plug-ins.
func (t *Taskset) checkRows(data rowsOfTasks, from, to int, names *namesOf) (err error) {
	if t.own == nil && len(t.plugins.checks()) == 0 && t.Text == nil {
		return nil
	}
	wrong, first, where := 0, error(nil), ""
	if t.own == nil {
		to = min(to, from+mostRows)
	}
	for i := from; i < to; i++ {
		task := t.Template
		task.ID, task.Index = fmt.Sprintf("%s/%d", t.Template.Taskset, i), i
		if task.Row, err = data.Row(i); err != nil {
			return err
		}
		if t.own != nil {
			names.count(&task, t.own)
		}
		if err := t.checkTask(&task); err != nil {
			if wrong++; wrong == 1 {
				first, where = err, data.Where(i)
			}
		}
	}
	switch {
	case wrong == 0:
		return nil
	case wrong == 1:
		return fmt.Errorf("%s: %w", where, first)
	}
	return fmt.Errorf("%s: %w; %d of the %d rows checked have an error", where, first, wrong, to-from)
}

// checkTask returns why a task cannot be run or scored.
func (t *Taskset) checkTask(task *trinity.Task) error {
	plugins, err := t.pluginsOf(task)
	if err != nil {
		return err
	}
	for _, check := range plugins.checks() {
		if err := check(task); err != nil {
			return err
		}
	}
	if messages, err := task.Messages(""); err == nil && t.Text != nil { // a workflow that asks has told about an error
		return t.Text.CheckKeys(messages)
	}
	return nil
}
