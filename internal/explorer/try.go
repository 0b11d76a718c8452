package explorer

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
)

// Try runs the group of one row of a taskset, or of the pack that begins with it, as the first step of a
// run does. The recorder learns of every rollout that failed or has no valid reward. broken are the
// reasons why rollouts are not in the group.
func Try(
	ctx context.Context, r *Runner, to Recorder, set *Taskset, row int,
) (task *trinity.Task, group trinity.Group, broken []error, err error) {
	n := set.Data.Len()
	if row < 0 || row >= n {
		return nil, nil, nil, fmt.Errorf("taskset %s has no row %d: it has %d, from 0 on", set.Template.Taskset, row, n)
	}
	var rows []int
	for i := range set.Packing.unit() {
		rows = append(rows, (row+i)%n)
	}
	jobs, err := set.jobs(rows)
	if err != nil {
		return nil, nil, nil, err
	}
	outcomes, err := r.run(ctx, 1, jobs)
	if err != nil {
		return jobs[0].Task, nil, nil, err
	}
	record(to, outcomes)
	return jobs[0].Task, outcomes[0].group, outcomes[0].failed, nil
}
