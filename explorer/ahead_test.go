package explorer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/selector"
)

// learning is two tasksets of 40 rows, of which one is chosen by what was learnt.
func learning(t *testing.T) *Mix {
	t.Helper()
	data := rows(40)
	for i, row := range data {
		row["weak"], row["strong"] = float64(i%7)/10, float64(i%5)/10+0.5
	}
	learnt, shuffled := named("learnt", 40, 0), named("shuffled", 40, 0)
	learnt.Selector = &selector.Difficulty{Options: selector.Options{Seed: 42, FeatureKeys: []string{"weak", "strong"}}, M: 1, Lamb: 0.2, Rho: 0.2, TargetReward: 0.5, Tau: 0.1, DoSample: true}
	shuffled.Selector = &selector.Shuffle{Options: selector.Options{Seed: 1}}
	for _, s := range []*Taskset{learnt, shuffled} {
		if err := s.Selector.Start(data); err != nil {
			t.Fatal(err)
		}
		s.Data, s.Workflow, s.Template.GroupSize = data, onePull{before: unequal}, 1
	}
	return mix(t, learnt, shuffled)
}

var errKilled = errors.New("killed")

// mortal is a sink that fails after so many deliveries.
type mortal struct {
	trinity.Sink
	left int
	sees func(trinity.Delivery) // is told of those before; nil is not
}

func (m *mortal) Put(ctx context.Context, d trinity.Delivery) error {
	if m.left--; m.left < 0 {
		return errKilled
	}
	if m.sees != nil {
		m.sees(d)
	}
	return m.Sink.Put(ctx, d)
}

// live has an explorer go on from where the one before it was killed, until it is killed itself after so many deliveries.
func live(t *testing.T, e *Explorer, deliveries int, sees func(trinity.Delivery)) {
	t.Helper()
	cursor, err := e.Buffer.Resume(t.Context())
	if err == nil {
		err = e.Restore(cursor)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.Buffer = &mortal{e.Buffer, deliveries, sees}
	if err := e.Run(t.Context()); err != nil && !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
}

// promises hold each delivery against what those before have said of the steps behind them.
type promises struct {
	t      *testing.T
	tasks  map[int64]string // of each step, once known
	widest int              // most steps that were under way behind a delivery
}

func (p *promises) see(d trinity.Delivery) {
	var c cursor
	if err := json.Unmarshal(d.Cursor, &c); err != nil {
		p.t.Error(err)
	}
	var ids []string
	for _, g := range d.Groups {
		ids = append(ids, g[0].ID.Task)
	}
	p.know(c.Step, ids)
	for i, step := range c.Ahead {
		var ids []string
		for _, of := range step {
			for _, row := range of.Rows {
				ids = append(ids, fmt.Sprint(of.Taskset, "/", row))
			}
		}
		p.know(c.Step+int64(i)+1, ids)
	}
	p.widest = max(p.widest, len(c.Ahead))
}

func (p *promises) know(step int64, ids []string) {
	is := strings.Join(ids, " ")
	if was, ok := p.tasks[step]; ok && was != is {
		p.t.Errorf("step %d has %s, and was begun with %s", step, is, was)
	}
	p.tasks[step] = is
}

// A run that is killed again and again, at another moment each time, delivers every step once, with the tasks that a delivery before has said it was under way
// with, though the selectors would choose others by then. An explorer with another window, or none, takes them up too.
func TestTasksUnderWayAreTakenUpAgain(t *testing.T) {
	const steps = 12
	run := func(lives []int, deliveries int) (tasks string, widest int) {
		synctest.Test(t, func(t *testing.T) {
			q := buffer.NewQueue(1000, 0, nil)
			p := &promises{t: t, tasks: map[int64]string{}}
			for _, underWay := range lives {
				e := flying(t, q, underWay, steps, nil)
				e.Tasks, e.BatchSize, e.Runner.Slots = learning(t), 4, NewSlots(10)
				live(t, e, deliveries, p.see)
			}
			state, _ := q.State()
			tasks, widest = tasksOf(state.Pending), p.widest
		})
		return tasks, widest
	}
	whole, _ := run([]int{3}, steps)
	killed, widest := run([]int{3, 4, 1, 3, 2, 4, 3}, 2)
	if widest < 2 {
		t.Errorf("%d steps at most were under way behind a delivery", widest)
	}
	ofShuffled := func(tasks string) (all []string) {
		for _, id := range strings.Fields(tasks) {
			if strings.Contains(id, "shuffled") {
				all = append(all, id)
			}
		}
		return all
	}
	if got, want := ofShuffled(killed), ofShuffled(whole); !slices.Equal(got, want) || len(want) < 20 {
		t.Errorf("of the taskset whose order is known were explored\n%v, want\n%v", got, want)
	}
	if n := len(strings.Fields(killed)); n != 4*steps {
		t.Errorf("%d tasks, want %d", n, 4*steps)
	}
}

// The state of an explorer without steps under way is as it was before there were any; forged ones are refused.
func TestStatesOfStepsUnderWay(t *testing.T) {
	e := newExplorer(t, buffer.NewQueue(100, 0, nil), 4)
	if _, err := e.tasksOf(1); err != nil {
		t.Fatal(err)
	}
	state, err := e.stateAfter(1, nil)
	if err != nil || strings.Contains(string(state), "ahead") {
		t.Fatalf("%s, %v", state, err)
	}
	for step := int64(2); step <= 3; step++ {
		if _, err := e.tasksOf(step); err != nil {
			t.Fatal(err)
		}
	}
	if state, err = e.stateAfter(1, nil); err != nil {
		t.Fatal(err)
	}
	const ahead = `"ahead":[[{"taskset":"arms","rows":[2,3]}],[{"taskset":"arms","rows":[4,0]}]]`
	if !strings.Contains(string(state), ahead) {
		t.Fatalf("the state is %s, want %s in it", state, ahead)
	}
	for forged, want := range map[string]string{
		strings.Replace(ahead, "arms", "legs", 1):   "taskset legs, which there is not",
		strings.Replace(ahead, "[2,3]", "[2,5]", 1): "row 5 of its 5",
		strings.Replace(ahead, "[4,0]", "[-1]", 1):  "row -1 of its 5",
	} {
		other := newExplorer(t, buffer.NewQueue(100, 0, nil), 4)
		err := other.Restore(json.RawMessage(strings.Replace(string(state), ahead, forged, 1)))
		if err == nil || !strings.Contains(err.Error(), want) || other.Step() != 0 {
			t.Errorf("%s: got %v", forged, err)
		}
	}
	other := newExplorer(t, buffer.NewQueue(100, 0, nil), 4)
	if err := other.Restore(state); err != nil {
		t.Fatal(err)
	}
	var got []string
	for step := int64(2); step <= 4; step++ {
		tasks, err := other.tasksOf(step)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			got = append(got, task.ID)
		}
	}
	if want := "[arms/2 arms/3 arms/4 arms/0 arms/1 arms/2]"; fmt.Sprint(got) != want {
		t.Errorf("steps 2 to 4 have %v, want %s", got, want)
	}
}
