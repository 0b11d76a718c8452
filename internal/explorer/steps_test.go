package explorer

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// unknown marks a step without a reward, in runsOf.
const unknown = -9

// runsOf returns a group of runs; each argument lists the accuracies of a run's steps.
func runsOf(runs ...[]float64) trinity.Group {
	var g trinity.Group
	for run, steps := range runs {
		for turn, v := range steps {
			e := &trinity.Experience{ID: trinity.ExperienceID{Step: 1, Task: "t", Run: run, Turn: turn}, Tokens: make([]int32, 3+turn), PromptLen: 2}
			if v != unknown {
				e.Reward = trinity.NewReward(map[string]float64{"accuracy": v})
			}
			g = append(g, e)
		}
	}
	return g
}

// Every run has the same weight, however many steps it has.
func TestMetricsAreMeansOverRuns(t *testing.T) {
	outcomes := []*outcome{
		{task: &trinity.Task{Index: 4}, group: runsOf([]float64{0, 0, 0, 1}, []float64{1})}, // ¼ and 1
		{task: &trinity.Task{Index: 7}, group: runsOf([]float64{unknown, unknown, 0.5}, []float64{0})},
		{task: &trinity.Task{Index: 9}, group: runsOf([]float64{unknown, unknown}, []float64{1, unknown})}, // the second one's first step counts
	}
	outcomes[2].group[0].Reward.Reason = "no judge"
	m := rolloutMetrics(outcomes)
	for name, want := range map[string]float64{
		"accuracy/mean": (0.625 + 0.25 + 1) / 3, "accuracy/max": 1, "accuracy/min": 0.25, "reward/min": 0.25,
		"response_length/max":  (2.5 + 1) / 2, // of task 4
		"response_length/min":  1.5,
		"invalid_reward_count": 3, // the last steps of task 9, and the one with a reason
		"finished_task_count":  3,
	} {
		if got := m[name]; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got, want := feedback(outcomes), map[int]float64{4: 0.625, 7: 0.25, 9: 1}; !maps.Equal(got, want) {
		t.Errorf("selectors get %v, want %v", got, want)
	}
	eval := evalMetrics(outcomes[:2], 2)
	for name, want := range map[string]float64{"accuracy/mean@2": 0.4375, "accuracy/std@2": (0.375 + 0.25) / 2} {
		if got := eval[name]; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	// Of two draws from {¼, 1} the best is 1 with probability ¾, of {½, 0} it is ½ with the same.
	if got, want := eval["accuracy/best@2"], (0.75+0.25*0.25+0.75*0.5)/2; got < want-0.03 || got > want+0.03 {
		t.Errorf("best@2 is %v, want about %v", got, want)
	}
}

// made is a workflow that returns experiences of the test's own.
type made func(id trinity.ExperienceID) []*trinity.Experience

func (w made) Run(_ context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	return w(r.Model.ID), nil
}

func TestTurnsAreNumberedAsReturned(t *testing.T) {
	step := func(id trinity.ExperienceID) *trinity.Experience {
		return &trinity.Experience{ID: id, Tokens: []int32{1, 2}, Mask: []bool{false, true}}
	}
	turns := func(turns ...int) made {
		return func(id trinity.ExperienceID) (out []*trinity.Experience) {
			for _, id.Turn = range turns {
				out = append(out, step(id))
			}
			return out
		}
	}
	for _, c := range []struct {
		name    string
		w       made
		refused string
	}{
		{"none", turns(), ""},
		{"in order", turns(0, 1, 2), ""},
		{"out of order, with a gap", turns(5, 0, 2), ""},
		{"the same turn twice", turns(0, 1, 0), ""},
		{"the same experience twice", func(id trinity.ExperienceID) []*trinity.Experience {
			e := step(id)
			return []*trinity.Experience{e, e}
		}, "returned experience 3/arms/0/0/0 twice"},
		{"no id", func(trinity.ExperienceID) []*trinity.Experience {
			return []*trinity.Experience{step(trinity.ExperienceID{})}
		}, "experience 0//0/0 from run 0 of task arms/0 in step 3"},
		{"of another run", func(id trinity.ExperienceID) []*trinity.Experience {
			id.Run++
			return []*trinity.Experience{step(id)}
		}, "experience 3/arms/0/1/0 from run 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ts := newTaskset(1, 1, c.w)
			tasks, _ := ts.all()
			r := newRunner(trinitytest.NewBandit(2))
			r.MaxRetries = 0
			outcomes, err := r.run(t.Context(), 3, tasks)
			if err != nil {
				t.Fatal(err)
			}
			o := outcomes[0]
			if c.refused == "" {
				for i, e := range o.group {
					if e.ID.Turn != i {
						t.Errorf("experience %d has turn %d", i, e.ID.Turn)
					}
				}
				if len(o.failed) > 0 {
					t.Errorf("failed %v", o.failed)
				}
				return
			}
			if len(o.group) != 0 || len(o.failed) != 1 {
				t.Fatalf("%d experiences, failed %v; want %q", len(o.group), o.failed, c.refused)
			}
			if line := o.failed[0].Error(); !strings.Contains(line, c.refused) || strings.Contains(line, "\n") {
				t.Errorf("failed with %q, want %q", line, c.refused)
			}
		})
	}
}
