package feed

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/wait"
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
	if err == nil {
		err = t.tryImages(data)
	}
	if err != nil || t.own == nil {
		return err
	}
	return names.missing(t.own, safetext.Hidden(t.Path))
}

// images returns the images of the taskset's rows, nil if they have none or no model shows them.
func (t *Taskset) images(rows dataset.Rows) *dataset.Images {
	if t.Format.ImageKey == "" || t.Text == nil {
		return nil
	}
	return &dataset.Images{Rows: rows, Key: t.Format.ImageKey, Keep: t.Text.TakeImage}
}

// tryImages returns an error if an image of the first rows cannot be shown. Those of all rows would take long.
func (t *Taskset) tryImages(data rowsOfTasks) error {
	images := t.images(data)
	if images == nil {
		return nil
	}
	for i := range min(data.Len(), sampledRows) {
		if _, err := images.Of(i); err != nil {
			return err
		}
	}
	return nil
}

// rowsOfTasks are the rows of a taskset, with their places for errors.
type rowsOfTasks interface {
	selector.Dataset
	dataset.Rows
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
		if _, err := a.tasks.probe(ctx, a, 0); err != nil {
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
	if images := t.images(queue); images != nil {
		out.Images = images.Of
	}
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
