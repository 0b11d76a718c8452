package run

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/dataset"
)

// mostRows are looked at of a taskset: keys that do not fit are wrong in all of them, and a large one would hold the run up.
const mostRows = 1 << 14

// checkTasks refuses a taskset of which a row cannot be asked or scored, as far as the row alone shows it. The error names the first, and how many there are.
func checkTasks(data *dataset.Dataset, template *trinity.Task) error {
	plugins, err := pluginsOf(template)
	if err != nil {
		return err
	}
	checks := plugins.checks()
	if len(checks) == 0 {
		return nil
	}
	wrong, first, where := 0, error(nil), ""
	rows := min(data.Len(), mostRows)
	for i := range rows {
		task := *template
		task.ID, task.Index = fmt.Sprintf("%s/%d", template.Taskset, i), i
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

// checkTaskset is [checkTasks] for a plan.
func checkTaskset(cfg *config.Settled, data *dataset.Dataset, key string) error {
	for _, t := range cfg.Data.Tasksets {
		if t.Key != key || !slices.Contains(cfg.Sources(), key+".path") {
			continue
		}
		s := stage{cfg: cfg, groupSize: cfg.Method.GroupSize}
		template := s.template(t.Taskset, t.Eval)
		if err := checkTasks(data, &template); err != nil {
			return fmt.Errorf("taskset %s: %w", t.Name, err)
		}
	}
	return nil
}
