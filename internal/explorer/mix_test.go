package explorer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/trinitytest"
)

func named(name string, n int, weight float64) *Taskset {
	ts := newTaskset(n, 2, onePull{})
	ts.Template.Taskset, ts.Weight = name, weight
	return ts
}

func ids(t *testing.T, m *Mix, n int) []string {
	t.Helper()
	all, err := m.choose(n)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := m.jobs(all)
	if err != nil || len(tasks) != n {
		t.Fatal(tasks, err)
	}
	out := make([]string, n)
	for i, task := range tasks {
		out[i] = task.ID
	}
	return out
}

// Every epoch has each taskset's exact share.
func TestMixSharesOfAnEpoch(t *testing.T) {
	for _, c := range []struct {
		rows    []int
		weights []float64
		want    []int
	}{
		{[]int{7}, []float64{0}, []int{7}},
		{[]int{6, 3, 1}, []float64{0, 0, 0}, []int{6, 3, 1}},
		{[]int{6, 3, 1}, []float64{1, 1, 1}, []int{4, 3, 3}}, // 3⅓ each; the first gets the rest
		{[]int{10, 20}, []float64{0.2, 0.6}, []int{8, 22}},   // 7½ and 22½, rounded down; the first gets the rest
		{[]int{10, 20}, []float64{30, 0}, []int{18, 12}},     // beside the 20 rows of the other
	} {
		var sets []*Taskset
		for i, n := range c.rows {
			sets = append(sets, named(fmt.Sprint("set", i), n, c.weights[i]))
		}
		m := mix(t, sets...)
		for epoch := range 5 {
			got := make([]int, len(sets))
			for range m.Epoch() {
				got[ids(t, m, 1)[0][3]-'0']++
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v rows with weights %v: epoch %d has %v, want %v", c.rows, c.weights, epoch, got, c.want)
			}
		}
	}
}

// Without weights each row occurs once per epoch, every epoch has another order of tasksets, and
// the tasks of a taskset stand together in a step.
func TestMixCoversAllRows(t *testing.T) {
	m := mix(t, named("a", 12, 0), named("b", 8, 0))
	var orders []string
	for range 3 {
		seen := map[string]bool{}
		var order strings.Builder
		for range 5 {
			step := ids(t, m, 4)
			for i, id := range step {
				seen[id] = true
				order.WriteByte(id[0])
				if i > 1 && id[0] != step[i-1][0] && slices.ContainsFunc(step[:i-1], func(other string) bool { return other[0] == id[0] }) {
					t.Errorf("the step %v goes back to a taskset", step)
				}
			}
		}
		if len(seen) != 20 {
			t.Errorf("an epoch has %d of 20 rows", len(seen))
		}
		if slices.Contains(orders, order.String()) {
			t.Errorf("two epochs have the order %s", &order)
		}
		orders = append(orders, order.String())
	}
}

// All orders of an epoch are equally likely: over many epochs each position has each taskset as
// often as its share.
func TestMixOrderIsEven(t *testing.T) {
	m := mix(t, named("a", 3, 0), named("b", 1, 0))
	var first [4]int
	const epochs = 4000
	for range epochs {
		for place := range first {
			if ids(t, m, 1)[0][0] == 'b' {
				first[place]++
			}
		}
	}
	for place, n := range first { // mean 1000, standard deviation 27
		if n < 890 || n > 1110 {
			t.Errorf("b has position %d in %d of %d epochs, want about %d", place, n, epochs, epochs/4)
		}
	}
}

func TestMixResumesAnywhere(t *testing.T) {
	build := func() *Mix { return mix(t, named("a", 5, 0), named("b", 3, 9), named("c", 4, 0)) }
	whole := build()
	var want [][]string
	for range 12 {
		want = append(want, ids(t, whole, 5))
	}
	for cut := range want {
		m := build()
		for range cut {
			ids(t, m, 5)
		}
		state, err := m.state()
		if err != nil {
			t.Fatal(err)
		}
		m = build()
		if err := m.restore(state); err != nil {
			t.Fatal(err)
		}
		for i := cut; i < len(want); i++ {
			if got := ids(t, m, 5); !slices.Equal(got, want[i]) {
				t.Fatalf("resumed after step %d: step %d is %v, want %v", cut, i, got, want[i])
			}
		}
	}
}

func TestMixRefusals(t *testing.T) {
	for want, sets := range map[string][]*Taskset{
		"nothing to explore": {},
		"gives it none":      {named("a", 5, 100), named("b", 5, 0.1)},
	} {
		if _, err := NewMix(sets...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	state, err := mix(t, named("a", 5, 0), named("b", 3, 0)).state()
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*Mix{
		"another number": mix(t, named("a", 5, 0)),
		"another name":   mix(t, named("a", 5, 0), named("c", 3, 0)),
		"other weights":  mix(t, named("a", 5, 1), named("b", 3, 1)),
		"another order":  mix(t, named("b", 3, 0), named("a", 5, 0)),
		"more rows":      mix(t, named("a", 6, 0), named("b", 3, 0)),
	} {
		if err := m.restore(state); err == nil || !strings.Contains(err.Error(), "start a new run") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, forged := range []string{
		"", "null", "[]", `{"epoch":-1}`,
		strings.Replace(string(state), `"left":5`, `"left":6`, 1), strings.Replace(string(state), `"left":5`, `"left":-1`, 1),
	} {
		if err := mix(t, named("a", 5, 0), named("b", 3, 0)).restore(json.RawMessage(forged)); err == nil {
			t.Errorf("the state %q was accepted", forged)
		}
	}
}

// A row that occurs twice in a step gives two groups with different samples.
func TestRowTwiceInAStep(t *testing.T) {
	want := []string{"arms/0", "arms/1", "arms/0#2", "arms/1#2", "arms/0#3"}
	if got := ids(t, mix(t, newTaskset(2, 1, onePull{})), 5); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// comparing is a group workflow that gives every rollout the reward 7.
type comparing struct{ onePull }

func (comparing) Compare(_ context.Context, _ *trinity.Rollout, group trinity.Group) error {
	for _, e := range group {
		e.Reward = trinity.NewReward(map[string]float64{"compared": 7})
	}
	return nil
}

// Each taskset has its own workflow, its own feedback, its own metrics and its own template.
func TestMixKeepsTasksetsApart(t *testing.T) {
	a, b, c := named("a", 4, 0), named("b", 4, 0), named("c", 2, 0)
	b.Workflow, b.Template.GroupSize = comparing{}, 3
	c.Workflow = onePull{before: func(context.Context, *trinity.Task, int) error { return errors.New("broken tool") }}
	q := buffer.NewQueue(100, 0, nil)
	e := newExplorer(t, q, 1)
	e.opts.EvalTasksets, e.opts.Agenda = nil, NewAgenda(mix(t, a, b, c), nil, 10)
	var m trinity.Metrics
	e.opts.Recorder = logging(func(_ int64, got trinity.Metrics) error { m = got; return nil })
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"rollout/b/reward/mean": 7, "rollout/b/compared/min": 7, "rollout/b/finished_task_count": 4, "rollout/a/finished_task_count": 4,
		"rollout/c/failed_run_count": 4, "rollout/c/finished_task_count": 0, "rollout/finished_task_count": 8, "rollout/failed_run_count": 4,
	} {
		if got, ok := m[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if _, ok := m["rollout/a/compared/mean"]; ok {
		t.Error("a's groups were compared")
	}
	told := func(s *Taskset) map[int]float64 { return s.Selector.(*trinitytest.InOrder).Seen }
	if len(told(a)) != 4 || len(told(b)) != 4 || told(b)[2] != 7 || told(a)[2] == 7 || len(told(c)) != 0 {
		t.Errorf("feedback %v, %v, %v", told(a), told(b), told(c))
	}
	state, _ := q.State()
	if n := len(slices.Concat(state.Pending...)); n != 4*2+4*3 {
		t.Errorf("%d experiences", n)
	}
}

// A run with one taskset logs no metrics under the taskset's name.
func TestOneTasksetHasNoOwnMetrics(t *testing.T) {
	e := newExplorer(t, buffer.NewQueue(100, 0, nil), 1)
	e.opts.Recorder = logging(func(_ int64, m trinity.Metrics) error {
		for name := range m {
			if strings.HasPrefix(name, "rollout/arms/") {
				t.Errorf("there is %s", name)
			}
		}
		return nil
	})
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A step has full packs alone, of both tasksets; an evaluation packs all rows.
func TestMixChoosesWholePacks(t *testing.T) {
	a, b := named("a", 9, 0), named("b", 7, 0)
	a.Packing.Size, b.Packing.Size = 4, 4
	m := mix(t, a, b)
	if m.Epoch() != 16 {
		t.Errorf("an epoch has %d tasks, want 16", m.Epoch())
	}
	seen := map[string]int{}
	for range 4 {
		all, err := m.choose(8)
		if err != nil {
			t.Fatal(err)
		}
		packs, err := m.jobs(all)
		if err != nil || len(packs) != 2 {
			t.Fatal(packs, err)
		}
		for _, pack := range packs {
			seen[pack.Taskset]++
			if len(pack.Pack) != 4 || pack.ID != pack.Pack[0].ID || pack.Pack[3].Taskset != pack.Taskset || pack.Pack[3].Index == pack.Index {
				t.Errorf("pack %s has the tasks %v", pack.ID, pack.Pack)
			}
		}
	}
	if seen["a"] != 4 || seen["b"] != 4 {
		t.Errorf("two epochs have the packs %v, want 4 of each taskset", seen)
	}
	for fill, want := range map[bool]int{false: 1, true: 4} {
		a.Packing.Fill = fill
		packs, err := a.all()
		if err != nil || len(packs) != 3 || len(packs[2].Pack) != want || packs[2].Pack[want-1].Index != (8+want-1)%9 {
			t.Errorf("filled %v: %v, %v", fill, packs, err)
		}
	}
	if f := feedback([]*outcome{{task: &trinity.Task{Index: 1, Pack: []*trinity.Task{{Index: 1}, {Index: 5}}}, group: trinity.Group{
		{Reward: trinity.Reward{Value: 0.5, Valid: true}}}}}); f[1] != 0.5 || f[5] != 0.5 {
		t.Errorf("the rows of a pack have the rewards %v", f)
	}
	c := named("c", 3, 0)
	c.Packing.Size = 4
	if _, err := NewMix(c); err == nil || !strings.Contains(err.Error(), "a pack has 4") {
		t.Errorf("three rows make a pack of four: %v", err)
	}
}
