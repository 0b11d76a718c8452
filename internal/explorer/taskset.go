// Package explorer is the rollout loop: it chooses tasks, runs their workflows against the model
// with bounded concurrency, timeouts and retries, and delivers groups of experiences.
package explorer

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/selector"
)

// Taskset is a dataset with the way to choose and run its rows.
type Taskset struct {
	Data     selector.Dataset
	Selector selector.Selector // nil for evaluation: every row once, in order
	Template trinity.Task      // everything of a task but ID, Index and Row
	Workflow trinity.Workflow
	Reward   trinity.RewardFunc // nil if the workflow runs without one
	// Own returns the workflow and the reward function of a task whose row may name its own, and sets
	// their names in the task. nil gives every task those above.
	Own      func(*trinity.Task) (trinity.Workflow, trinity.RewardFunc, error)
	Images   func(row int) (digests []string, err error) // of a row, which are kept then; nil if rows have none
	Weight   float64                                     // in a [Mix]; 0 is the number of rows
	Explorer string                                      // prefix of task IDs if there are several explorers; "" if there is one
	Packing  Packing
}

// Packing says how tasks become packs, each of which a rollout solves as a whole.
type Packing struct {
	Size int  // tasks of a pack; 0: no packs
	Fill bool // tasks from the beginning fill the last pack of an evaluation; else it is shorter
}

// unit returns how many rows of the taskset are chosen at a time.
func (p Packing) unit() int { return max(1, p.Size) }

// of returns a job for each pack of the tasks. A pack has the ID of its first task.
func (p Packing) of(jobs []job) []job {
	if p.Size == 0 {
		return jobs
	}
	var packs []job
	for begin := 0; begin < len(jobs); begin += p.Size {
		pack := *jobs[begin].Task
		for i := begin; i < begin+p.Size && (i < len(jobs) || p.Fill); i++ {
			pack.Pack = append(pack.Pack, jobs[i%len(jobs)].Task)
		}
		packs = append(packs, job{&pack, jobs[begin].workflow, jobs[begin].reward, seeAll(&pack, jobs)})
	}
	return packs
}

// job is a task with the workflow that runs it.
type job struct {
	*trinity.Task
	workflow trinity.Workflow
	reward   trinity.RewardFunc // nil if the workflow runs without one
	// see gives the task its images, once; nil if it has none. An error fails the task's rollouts.
	see func() error
}

// choose takes the next n rows.
func (t *Taskset) choose(n int) (tasksetRows, error) {
	rows, err := t.Selector.Next(n)
	if err != nil {
		return tasksetRows{}, fmt.Errorf("taskset %s: %w", t.Template.Taskset, err)
	}
	return tasksetRows{t.Template.Taskset, rows}, nil
}

// all returns a job for every row or pack, in order.
func (t *Taskset) all() ([]job, error) {
	rows := make([]int, t.Data.Len())
	for i := range rows {
		rows[i] = i
	}
	return t.jobs(rows)
}

// jobs returns a job for each of the rows, which may repeat, or for each pack of them.
func (t *Taskset) jobs(rows []int) ([]job, error) {
	jobs := make([]job, len(rows))
	times := map[int]int{}
	for i, row := range rows {
		task, err := t.task(row)
		if err != nil {
			return nil, err
		}
		times[row]++
		task.ID = repeated(task.ID, times[row]) // another ID gives other samples
		jobs[i] = job{task, t.Workflow, t.Reward, t.seen(task)}
		if t.Own == nil {
			continue
		}
		if jobs[i].workflow, jobs[i].reward, err = t.Own(task); err != nil {
			return nil, fmt.Errorf("taskset %s, row %d: %w", t.Template.Taskset, row, err)
		}
	}
	return t.Packing.of(jobs), nil
}

// task makes the task of one row.
func (t *Taskset) task(row int) (*trinity.Task, error) {
	data, err := t.Data.Row(row)
	if err != nil {
		return nil, fmt.Errorf("taskset %s, row %d: %w", t.Template.Taskset, row, err)
	}
	number := row
	if share, ok := t.Data.(*Share); ok {
		number = share.number(row)
	}
	task := t.Template
	task.ID, task.Index, task.Row = taskID(t.Explorer, t.Template.Taskset, number), row, data
	return &task, nil
}

// taskID names a row of a taskset or an input. The name is unique among the tasks of a step, of all
// explorers; explorer is "" if there is one explorer.
func taskID(explorer, set string, row int) string {
	id := fmt.Sprintf("%s/%d", set, row)
	if explorer != "" {
		id = explorer + ":" + id
	}
	return id
}

// repeated returns the ID of a task that occurs for the n-th time in a step: it is a group of its
// own.
func repeated(id string, n int) string {
	if n > 1 {
		id += fmt.Sprintf("#%d", n)
	}
	return id
}

// Share is every n-th row of a dataset. The shares of all explorers together hold each row once.
type Share struct {
	selector.Dataset
	first, every int
}

// ShareOf returns the k-th of n shares, counted from 1.
func ShareOf(d selector.Dataset, k, n int) *Share { return &Share{d, k - 1, n} }

// Len implements [selector.Dataset].
func (s *Share) Len() int { return (s.Dataset.Len() - s.first + s.every - 1) / s.every }

// Row implements [selector.Dataset].
func (s *Share) Row(i int) (map[string]any, error) { return s.Dataset.Row(s.number(i)) }

// number returns the row's number in the whole dataset.
func (s *Share) number(i int) int { return s.first + i*s.every }
