package explorer

import (
	"fmt"
	"slices"
	"sync"

	"github.com/trinity-go/trinity"
)

// seen returns what gives a task of the taskset its images: before its first rollout, so that the images of a
// whole step are not made one after the other.
func (t *Taskset) seen(task *trinity.Task) func() error {
	if t.Images == nil {
		return nil
	}
	row := task.Index
	if share, ok := t.Data.(*Share); ok {
		row = share.number(row)
	}
	return sync.OnceValue(func() (err error) {
		task.Images, err = t.Images(row)
		return err
	})
}

// seeAll returns what gives the tasks of a pack their images. jobs has them.
func seeAll(pack *trinity.Task, jobs []job) func() error {
	of := func(task *trinity.Task) func() error {
		return jobs[slices.IndexFunc(jobs, func(j job) bool { return j.Task == task })].see
	}
	if of(pack.Pack[0]) == nil {
		return nil
	}
	return sync.OnceValue(func() error {
		for _, task := range pack.Pack {
			if err := of(task)(); err != nil {
				return err
			}
		}
		pack.Images = pack.Pack[0].Images
		return nil
	})
}

// sawImages returns an error if a task has images, and its workflow has shown the policy none.
func sawImages(task job, exps []*trinity.Experience) error {
	if len(task.Images) == 0 || len(exps) == 0 ||
		slices.ContainsFunc(exps, func(e *trinity.Experience) bool { return len(e.Images) > 0 || e.Truncated == trinity.PromptTruncated }) {
		return nil
	}
	return &trinity.RolloutError{Kind: trinity.FailedWorkflow, Final: true, Err: fmt.Errorf(
		"the task has %d images, and workflow %s shows the policy none: use one that asks the row's question, or leave format.image_key out",
		len(task.Images), task.Workflow)}
}
