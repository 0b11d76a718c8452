package run

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/dataset"
	"github.com/trinity-go/trinity/internal/database"
)

// mostRows is the number of rows of a taskset that check reads, if its rows name no plug-ins. A wrong
// key is wrong in all rows, and reading a large taskset would delay the run.
const mostRows = 1 << 14

// check returns an error if the workflow cannot ask or the reward function cannot score a row, as
// far as the row alone shows it. The error describes the first such row and counts them.
func (t *tasks) check(data *dataset.Dataset) (err error) {
	if t.own == nil && len(t.plugins.checks()) == 0 {
		return nil
	}
	wrong, first, where := 0, error(nil), ""
	rows, names := data.Len(), namesOf{}
	if t.own == nil {
		rows = min(rows, mostRows)
	}
	for i := range rows {
		task := t.template
		task.ID, task.Index = fmt.Sprintf("%s/%d", t.template.Taskset, i), i
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
	case wrong == 0 && t.own != nil:
		return names.missing(t.own, database.Hidden(t.Path))
	case wrong == 0:
		return nil
	case wrong == 1:
		return fmt.Errorf("%s: %w", where, first)
	}
	return fmt.Errorf("%s: %w; %d of the %d rows checked have an error", where, first, wrong, rows)
}

// checkTask returns why a task cannot be run or scored.
func (t *tasks) checkTask(task *trinity.Task) error {
	plugins, err := t.pluginsOf(task)
	if err != nil {
		return err
	}
	for _, check := range plugins.checks() {
		if err := check(task); err != nil {
			return err
		}
	}
	return nil
}

// checkTaskset checks the rows of the taskset at a key, if the stage reads one there.
func (s *Settled) checkTaskset(data *dataset.Dataset, key string) error {
	for i := range s.tasks {
		if t := &s.tasks[i]; t.Key == key {
			if err := t.check(data); err != nil {
				return fmt.Errorf("taskset %s: %w", t.Name, err)
			}
		}
	}
	return nil
}
