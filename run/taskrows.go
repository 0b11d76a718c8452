package run

import (
	"fmt"

	"github.com/trinity-go/trinity/dataset"
)

// mostRows are looked at of a taskset: keys that do not fit are wrong in all of them, and a large one would hold the run up.
const mostRows = 1 << 14

// check refuses a taskset of which a row cannot be asked or scored, as far as the row alone shows it. The error names the first, and how many there are.
func (t *tasks) check(data *dataset.Dataset) (err error) {
	checks := t.plugins.checks()
	if len(checks) == 0 {
		return nil
	}
	wrong, first, where := 0, error(nil), ""
	rows := min(data.Len(), mostRows)
	for i := range rows {
		task := t.template
		task.ID, task.Index = fmt.Sprintf("%s/%d", t.template.Taskset, i), i
		if task.Row, err = data.Row(i); err != nil {
			return err
		}
		for _, check := range checks {
			if err := check(&task); err != nil {
				if wrong++; wrong == 1 {
					first, where = err, data.Where(i)
				}
				break
			}
		}
	}
	switch {
	case wrong == 0:
		return nil
	case wrong == 1:
		return fmt.Errorf("%s: %w", where, first)
	}
	return fmt.Errorf("%s: %w; so it is with %d of the %d rows looked at", where, first, wrong, rows)
}

// checkTaskset checks the rows of the taskset at a key, if the stage reads one there.
func (cfg *Settled) checkTaskset(data *dataset.Dataset, key string) error {
	for i := range cfg.tasks {
		if t := &cfg.tasks[i]; t.Key == key {
			if err := t.check(data); err != nil {
				return fmt.Errorf("taskset %s: %w", t.Name, err)
			}
		}
	}
	return nil
}
