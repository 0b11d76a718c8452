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
	_ "github.com/trinity-go/trinity/selector"
)

// learning mixes two tasksets of 40 rows; the selector of one learns from rewards.
func learning(t *testing.T) *Mix {
	t.Helper()
	data := rows(40)
	for i, row := range data {
		row["weak"], row["strong"] = float64(i%7)/10, float64(i%5)/10+0.5
	}
	learnt, shuffled := named("learnt", 40, 0), named("shuffled", 40, 0)
	learnt.Selector = newSelector(t, "difficulty_based", map[string]any{
		"seed": 42, "feature_keys": []string{"weak", "strong"}, "m": 1.0, "lamb": 0.2, "rho": 0.2,
		"target_reward": 0.5, "tau": 0.1, "do_sample": true})
	shuffled.Selector = newSelector(t, "shuffle", map[string]any{"seed": 1})
	for _, s := range []*Taskset{learnt, shuffled} {
		if err := s.Selector.Start(data); err != nil {
			t.Fatal(err)
		}
		s.Data, s.Workflow, s.Template.GroupSize = data, onePull{before: unequal}, 1
	}
	return mix(t, learnt, shuffled)
}

func newSelector(t *testing.T, name string, args map[string]any) selector.Selector {
	t.Helper()
	s, err := selector.Selectors.Build(name, args)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var errKilled = errors.New("killed")

// mortal is a sink that fails after left deliveries.
type mortal struct {
	trinity.Sink
	left int
	sees func(trinity.Delivery) // called for each delivery before the failure; may be nil
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

// live resumes an explorer and kills it after some deliveries.
func live(t *testing.T, e *Explorer, deliveries int, sees func(trinity.Delivery)) {
	t.Helper()
	_, cursor, err := e.opts.Buffer.Resume(t.Context())
	if err == nil {
		err = e.opts.Agenda.Restore(cursor)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.opts.Buffer = &mortal{e.opts.Buffer, deliveries, sees}
	if err := e.Run(t.Context()); err != nil && !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
}

// promises compare each delivery with the tasks that earlier deliveries announced for its step.
type promises struct {
	t      *testing.T
	tasks  map[int64]string // of each step, once announced
	widest int              // most steps in flight behind a delivery
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

// A run that is killed again and again delivers every step once, with the tasks that an earlier
// delivery announced for it, even if the selectors would now choose others. An explorer with
// another window resumes these steps too.
func TestResumeRepeatsTheTasksInFlight(t *testing.T) {
	const steps = 12
	run := func(lives []int, deliveries int) (tasks string, widest int) {
		synctest.Test(t, func(t *testing.T) {
			q := buffer.NewQueue(1000, 0, nil)
			p := &promises{t: t, tasks: map[int64]string{}}
			for _, inFlight := range lives {
				e := flying(t, q, inFlight, steps, nil)
				e.opts.Agenda, e.opts.Runner.Slots = NewAgenda(learning(t), nil, 4), NewSlots(10, 10)
				live(t, e, deliveries, p.see)
			}
			state, _ := q.State()
			tasks, widest = tasksOf(state.Pending...), p.widest
		})
		return tasks, widest
	}
	whole, _ := run([]int{3}, steps)
	killed, widest := run([]int{3, 4, 1, 3, 2, 4, 3}, 2)
	if widest < 2 {
		t.Errorf("at most %d steps were in flight behind a delivery", widest)
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

// A state without steps in flight has no key "ahead"; an agenda refuses forged states.
func TestStateListsTheStepsInFlight(t *testing.T) {
	e := newExplorer(t, buffer.NewQueue(100, 0, nil), 4)
	if _, err := e.opts.Agenda.jobs(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	state, err := e.opts.Agenda.stateAfter(1, nil)
	if err != nil || strings.Contains(string(state), "ahead") {
		t.Fatalf("%s, %v", state, err)
	}
	for step := int64(2); step <= 3; step++ {
		if _, err := e.opts.Agenda.jobs(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	if state, err = e.opts.Agenda.stateAfter(1, nil); err != nil {
		t.Fatal(err)
	}
	const ahead = `"ahead":[[{"taskset":"arms","rows":[2,3]}],[{"taskset":"arms","rows":[4,0]}]]`
	if !strings.Contains(string(state), ahead) {
		t.Fatalf("the state is %s, want %s in it", state, ahead)
	}
	for forged, want := range map[string]string{
		strings.Replace(ahead, "arms", "legs", 1):   "taskset legs, which is not configured",
		strings.Replace(ahead, "[2,3]", "[2,5]", 1): "row 5 of taskset arms, which has 5",
		strings.Replace(ahead, "[4,0]", "[-1]", 1):  "row -1 of taskset arms, which has 5",
	} {
		other := newExplorer(t, buffer.NewQueue(100, 0, nil), 4)
		err := other.opts.Agenda.Restore(json.RawMessage(strings.Replace(string(state), ahead, forged, 1)))
		if err == nil || !strings.Contains(err.Error(), want) || other.opts.Agenda.Step() != 0 {
			t.Errorf("%s: got %v", forged, err)
		}
	}
	other := newExplorer(t, buffer.NewQueue(100, 0, nil), 4)
	if err := other.opts.Agenda.Restore(state); err != nil {
		t.Fatal(err)
	}
	var got []string
	for step := int64(2); step <= 4; step++ {
		tasks, err := other.opts.Agenda.jobs(t.Context(), step)
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
