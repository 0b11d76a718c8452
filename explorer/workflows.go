package explorer

import (
	"context"

	"github.com/trinity-go/trinity"
)

// workflow runs each task by the workflow of its taskset.
func (m *Mix) workflow() trinity.Workflow {
	w := workflows{}
	for _, s := range m.sets {
		w[s.Template.Taskset] = s.Workflow
	}
	return w
}

// workflows are those of tasksets, by name.
type workflows map[string]trinity.Workflow

// Run implements [trinity.Workflow].
func (w workflows) Run(ctx context.Context, task *trinity.Task, m *trinity.Model) ([]*trinity.Experience, error) {
	return w[task.Taskset].Run(ctx, task, m)
}

// Compare implements [trinity.GroupWorkflow]; where the taskset's workflow is none there is nothing to compare.
func (w workflows) Compare(ctx context.Context, task *trinity.Task, m *trinity.Model, group trinity.Group) error {
	if of, ok := w[task.Taskset].(trinity.GroupWorkflow); ok {
		return of.Compare(ctx, task, m, group)
	}
	return nil
}
