package explorer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/trinitytest"
)

// recorded is a dataset of n groups with one and two rollouts in turn; group i begins at row 10·i.
type recorded int

func (n recorded) Len() int                        { return int(n) }
func (recorded) Row(i int) (map[string]any, error) { return map[string]any{"row": i}, nil }
func (recorded) Largest() int                      { return 2 }
func (recorded) Group(i int) (trinity.Group, int, error) {
	var g trinity.Group
	for run := range 1 + i%2 {
		g = append(g, &trinity.Experience{
			ID: trinity.ExperienceID{Step: 77, Task: "of another run", Run: run}, Tokens: []int32{1, 2}, Mask: []bool{false, true},
			Logprobs: []float32{0, -1}, Advantages: []float32{0, 9}, Returns: []float32{0, 9}, Versions: [2]int64{3, 4}, Info: sharedInfo,
		})
	}
	return g, 10 * i, nil
}

var sharedInfo = map[string]any{"quality": 0.5}

func newInput(t *testing.T, name string, data Recorded) *Input {
	t.Helper()
	in := &Input{Name: name, Data: data, Selector: &trinitytest.InOrder{}, PerStep: 2}
	if err := in.Selector.Start(data); err != nil {
		t.Fatal(err)
	}
	return in
}

// namesOf returns the step, task and size of each group.
func namesOf(groups []trinity.Group) (names []string) {
	for _, g := range groups {
		names = append(names, fmt.Sprintf("%d:%s×%d", g[0].ID.Step, g[0].ID.Task, len(g)))
	}
	return names
}

func TestInputsJoinTheRollouts(t *testing.T) {
	once, always := newInput(t, "once", recorded(3)), newInput(t, "always", ShareOfGroups(recorded(2), 2, 2))
	once.Limit, always.Explorer = 3, "left"
	all := Inputs{always, once}
	if got := all.PerStep(); got != 8 {
		t.Errorf("%d rollouts in a step at most, want 8", got)
	}
	for step, want := range [][]string{
		1: {"0:rollout×1", "1:left:always/10×2", "1:left:always/10#2×2", "1:once/0×1", "1:once/10×2"},
		2: {"0:rollout×1", "2:left:always/10×2", "2:left:always/10#2×2", "2:once/20×1"},
		3: {"0:rollout×1", "3:left:always/10×2", "3:left:always/10#2×2"},
	} {
		if step == 0 {
			continue
		}
		metrics := trinity.Metrics{}
		groups, err := all.join(int64(step), []trinity.Group{{{ID: trinity.ExperienceID{Task: "rollout"}}}}, metrics)
		if err != nil || !slices.Equal(namesOf(groups), want) {
			t.Errorf("step %d: got %q, %v; want %q", step, namesOf(groups), err, want)
		}
		once, always := metrics["experience_pipeline/input/once_count"], metrics["experience_pipeline/input/always_count"]
		if once != []float64{0, 3, 1, 0}[step] || always != 4 {
			t.Errorf("step %d: counted %v", step, metrics)
		}
		for _, e := range slices.Concat(groups[1:]...) {
			named := strings.Contains(e.ID.Task, e.Info["input"].(string))
			if e.Advantages != nil || e.Returns != nil || e.Logprobs == nil || e.Versions != [2]int64{3, 4} || e.Info["quality"] != 0.5 || !named {
				t.Errorf("%+v", e)
			}
		}
	}
	if len(sharedInfo) != 1 {
		t.Error("the explorer wrote to the recorded data")
	}
}

// A kill every two deliveries, with several steps in flight, does not change the groups that join
// each step.
func TestInputsResumeWithStepsInFlight(t *testing.T) {
	run := func(lives, deliveries int) (came []string) {
		synctest.Test(t, func(t *testing.T) {
			q := buffer.NewQueue(1000, 0, nil)
			for range lives {
				e := flying(t, q, 3, 12, unequal)
				in := newInput(t, "old", recorded(7))
				in.Selector = newSelector(t, "shuffle", map[string]any{"seed": 1})
				if err := in.Selector.Start(in.Data); err != nil {
					t.Fatal(err)
				}
				e.opts.Agenda.inputs = Inputs{in}
				live(t, e, deliveries, nil)
			}
			state, _ := q.State()
			for _, e := range slices.Concat(state.Pending...) {
				if e.Info["input"] != nil {
					came = append(came, e.ID.String())
				}
			}
		})
		return came
	}
	whole, killed := run(1, 12), run(7, 2)
	if !slices.Equal(whole, killed) || len(whole) < 24 {
		t.Errorf("joined by\n%v, want\n%v", killed, whole)
	}
}

// A resumed explorer gets the groups of the following steps and refuses the state of other inputs.
func TestInputsResume(t *testing.T) {
	explore := func(cursor json.RawMessage, steps int64) (string, json.RawMessage) {
		q := buffer.NewQueue(100, 0, nil)
		e := newExplorer(t, q, steps)
		e.opts.Agenda.inputs = Inputs{newInput(t, "old", recorded(5))}
		if err := e.opts.Agenda.Restore(cursor); err != nil {
			t.Fatal(err)
		}
		came := ""
		e.opts.Pipeline = seeing(func(g []trinity.Group) { came += fmt.Sprint(namesOf(g)) })
		if err := e.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, cursor, err := q.Sink("").Resume(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return came, cursor
	}
	whole, _ := explore(nil, 4)
	first, cursor := explore(nil, 2)
	then, _ := explore(cursor, 4)
	if first+then != whole || !strings.Contains(whole, "2:old/30×2") {
		t.Errorf("got  %s\nthen %s\nwant %s", first, then, whole)
	}
	for want, of := range map[string]Inputs{
		"explorer state: has 1 inputs of the experience pipeline, the configuration has 0": nil,
		"input new: the explorer state has input old":                                      {newInput(t, "new", recorded(5))},
	} {
		e := newExplorer(t, buffer.NewQueue(100, 0, nil), 4)
		e.opts.Agenda.inputs = of
		if err := e.opts.Agenda.Restore(cursor); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Inputs refuse the state of other inputs and forged states.
func TestInputsRefuseForeignState(t *testing.T) {
	inputs := func() Inputs { return Inputs{newInput(t, "old", recorded(4)), newInput(t, "new", recorded(4))} }
	state := func() []savedInput {
		saved, err := inputs().state()
		if err != nil {
			t.Fatal(err)
		}
		return saved
	}
	if err := inputs().restore(state()); err != nil {
		t.Errorf("its own state: %v", err)
	}
	for what, change := range map[string]func([]savedInput) []savedInput{
		"of fewer":       func(s []savedInput) []savedInput { return s[:1] },
		"of another":     func(s []savedInput) []savedInput { s[1].Name = "other"; return s },
		"of less than 0": func(s []savedInput) []savedInput { s[1].Taken = -1; return s },
	} {
		err := inputs().restore(change(state()))
		if err == nil || !strings.Contains(err.Error(), "resume with the same inputs, or start a new run") {
			t.Errorf("a state %s: %v", what, err)
		}
	}
}
