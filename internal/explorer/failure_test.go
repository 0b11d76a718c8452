package explorer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
)

// breaking is a workflow that says what becomes of a rollout: an error, the reason for which it has
// no valid reward, or neither.
type breaking func(id trinity.ExperienceID) (reason string, failed error)

func (f breaking) Run(_ context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	reason, failed := f(r.Model.ID)
	return []*trinity.Experience{{
		ID: r.Model.ID, Tokens: make([]int32, 2), Mask: []bool{false, true}, PromptLen: 1,
		Reward: trinity.Reward{Value: 1, Valid: reason == "", Reason: reason},
	}}, failed
}

// People read at once why rollouts failed or have no valid reward: at the first such step, at the
// first that has no others, and at each evaluation.
func TestFailedRolloutsAreToldAtOnce(t *testing.T) {
	some := func(id trinity.ExperienceID) (string, error) {
		if id.Run == 1 && id.Step > 1 {
			return "no\nnumber", nil
		}
		return "", nil
	}
	const log = "; log/failed_rollouts.log has all"
	for _, c := range []struct {
		name string
		f    breaking
		want string
	}{
		{"none", func(trinity.ExperienceID) (string, error) { return "", nil }, ""},
		{"some rewards", some, "explorer step 2: 2 of 4 rollouts failed or have no valid reward; the first: " +
			"task arms/2, run 1: no valid reward: no" + log},
		{"some rollouts, then all", func(id trinity.ExperienceID) (string, error) {
			if id.Run == 0 && id.Step == 1 || id.Step == 3 {
				return "", errors.New("broken")
			}
			return "", nil
		}, "explorer step 1: 2 of 4 rollouts failed or have no valid reward; the first: task arms/0, run 0: broken" + log + "\n" +
			"explorer step 3: 4 of 4 rollouts failed or have no valid reward; the first: task arms/4, run 0: broken" + log},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newExplorer(t, buffer.NewQueue(100, 0, nil), 4)
			told := &telling{shares: map[int64]float64{}}
			e.opts.Recorder = told
			e.opts.Agenda = NewAgenda(mix(t, newTaskset(8, 2, c.f)), nil, 2)
			if err := e.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(told.lines, "\n"); got != c.want {
				t.Errorf("told %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestEvaluationsCountWhatHasNoReward(t *testing.T) {
	set := newTaskset(5, 2, breaking(func(id trinity.ExperienceID) (string, error) {
		if strings.HasSuffix(id.Task, "/3") {
			return "no number", nil
		}
		return "", nil
	}))
	told := &telling{}
	r := newExplorer(t, buffer.NewQueue(100, 0, nil), 1).opts.Runner
	m, err := Evaluate(t.Context(), r, told, []*Taskset{set}, 7, "eval/")
	if err != nil {
		t.Fatal(err)
	}
	if got := m["eval/arms/invalid_reward_count"]; got != 2 {
		t.Errorf("invalid_reward_count is %v, want 2 of %v", got, m)
	}
	want := "evaluation of arms at step 7: 2 of 10 rollouts failed or have no valid reward; the first: task arms/3, run 0: no valid reward: " +
		"no number; log/failed_rollouts.log has all"
	if got := fmt.Sprint(told.lines); got != "["+want+"]" {
		t.Errorf("told %s\nwant %s", got, want)
	}
}

// A run of fewer steps than it takes to give up also fails if no step had a valid reward. Otherwise
// it would count as complete, and nobody could resume it after a repair.
func TestShortRunWithoutARewardFails(t *testing.T) {
	e := newExplorer(t, buffer.NewQueue(100, 0, nil), 2)
	e.opts.Recorder = &telling{shares: map[int64]float64{}}
	unscored := breaking(func(trinity.ExperienceID) (string, error) { return "no number", nil })
	e.opts.Agenda = NewAgenda(mix(t, newTaskset(8, 2, unscored)), nil, 2)
	err := e.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "have no valid reward, as did those of the step before;") {
		t.Errorf("the run ends with %v", err)
	}
}
