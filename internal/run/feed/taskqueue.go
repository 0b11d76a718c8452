package feed

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/wait"
)

// arriving is a queue of tasks. A row gets the checks of a taskset before a step takes it.
type arriving struct {
	*dataset.Queue
	tasks   *Taskset
	checked int // rows
}

// Await implements [explorer.Queue].
func (a *arriving) Await(ctx context.Context, n int) error {
	if err := a.Queue.Await(ctx, n); err != nil {
		return err
	}
	return a.check(ctx)
}

// check checks the rows that have arrived since the last check. With the first of them it also tries
// what a task needs.
func (a *arriving) check(ctx context.Context) error {
	rows := a.Len()
	if err := a.tasks.checkRows(a, a.checked, rows, &namesOf{}); err != nil {
		return err
	}
	if a.checked == 0 && rows > 0 {
		if err := a.tasks.probe(ctx, a); err != nil {
			return err
		}
	}
	a.checked = rows
	return nil
}

// openQueue reads the rows that are in the queue of a taskset.
func openQueue(t *Taskset, say func(string)) (*arriving, error) {
	a := &arriving{Queue: dataset.NewQueue(t.Path, wait.Seconds(t.MaxReadTimeout), say), tasks: t}
	return a, a.Extend()
}

// readQueue gives a taskset the explorer's share of the rows of a queue.
func (s *Reader) readQueue(ctx context.Context, t *Taskset, out *explorer.Taskset) error {
	queue, err := openQueue(t, s.Say)
	if err != nil {
		return err
	}
	if err := queue.check(ctx); err != nil {
		return err
	}
	k, n := s.Explorer.Part()
	share := explorer.ShareOf(queue, k, n)
	out.Data, out.Selector, out.Explorer = share, explorer.NewArrivals(queue, share), OwnName(s.Settled)
	return nil
}

// CheckQueues checks the rows that are in queues of tasks, and counts them in f.
func CheckQueues(s *config.Settled, tasksets []Taskset, f *config.Facts) error {
	for i := range tasksets {
		t := &tasksets[i]
		if !t.IsQueue() {
			continue
		}
		queue, err := openQueue(t, nil)
		if err == nil {
			f.Rows[t.Key] = queue.Len()
			err = t.checkRows(queue, 0, queue.Len(), &namesOf{})
		}
		if err != nil {
			return s.At(t.Key+".path", fmt.Sprintf("taskset %s: %v", t.Name, err), "")
		}
	}
	return nil
}
