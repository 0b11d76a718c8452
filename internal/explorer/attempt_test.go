package explorer

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// joint makes the rollouts of a group in one call.
type joint struct {
	onePull
	end func(call int, group []*trinity.Rollout, exps [][]*trinity.Experience) ([][]*trinity.Experience, error)

	mu    sync.Mutex
	calls [][]int // runs of each call
}

func (w *joint) Requires() trinity.Requirements { return trinity.Requirements{RunGroup: w.runGroup} }

func (w *joint) runGroup(ctx context.Context, group []*trinity.Rollout) ([][]*trinity.Experience, error) {
	var runs []int
	exps := make([][]*trinity.Experience, len(group))
	for i, r := range group {
		runs = append(runs, r.Model.ID.Run)
		var err error
		if exps[i], err = w.Run(ctx, r); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	w.calls = append(w.calls, runs)
	calls := len(w.calls)
	w.mu.Unlock()
	if w.end != nil {
		return w.end(calls, group, exps)
	}
	return exps, nil
}

// A group that one call makes has the rollouts that it has otherwise: ids, seeds, tokens.
func TestAGroupMadeTogether(t *testing.T) {
	groups := map[bool]trinity.Group{}
	for _, isJoint := range []bool{false, true} {
		together := &joint{}
		w := trinity.Workflow(onePull{})
		if isJoint {
			w = together
		}
		tasks, err := newTaskset(1, 3, w).all()
		if err != nil {
			t.Fatal(err)
		}
		r := newRunner(trinitytest.NewBandit(3))
		r.Greedy = true
		outcomes, err := r.run(t.Context(), 1, tasks)
		if err != nil || len(outcomes[0].failed) > 0 {
			t.Fatal(err, outcomes[0].failed)
		}
		groups[isJoint] = outcomes[0].group
		if isJoint && !reflect.DeepEqual(together.calls, [][]int{{0, 1, 2}, {3}}) && !reflect.DeepEqual(together.calls, [][]int{{3}, {0, 1, 2}}) {
			t.Errorf("calls make the runs %v", together.calls)
		}
	}
	if len(groups[true]) != 3 || !reflect.DeepEqual(values(groups[true]), values(groups[false])) {
		t.Errorf("together %+v, each by itself %+v", values(groups[true]), values(groups[false]))
	}
}

func values(g trinity.Group) (all []trinity.Experience) {
	for _, e := range g {
		all = append(all, *e)
	}
	return all
}

// A call that fails is attempted again, unless some of its rollouts succeeded.
func TestFailuresOfAGroupMadeTogether(t *testing.T) {
	broken := &trinity.EngineError{Err: errors.New("out of memory")}
	late := &trinity.RolloutError{Kind: trinity.FailedTimeout, Err: errors.New("late")}
	for name, c := range map[string]struct {
		end    func(call int, group []*trinity.Rollout, exps [][]*trinity.Experience) ([][]*trinity.Experience, error)
		calls  int
		runs   int
		failed string // of the first that failed
		ends   error
	}{
		"once": {
			end: func(call int, _ []*trinity.Rollout, exps [][]*trinity.Experience) ([][]*trinity.Experience, error) {
				if call == 1 {
					return nil, late
				}
				return exps, nil
			}, calls: 2, runs: 3,
		},
		"always": {
			end: func(int, []*trinity.Rollout, [][]*trinity.Experience) ([][]*trinity.Experience, error) {
				return nil, late
			},
			calls: 3, failed: "task arms/0, run 0: late",
		},
		"final": {
			end: func(int, []*trinity.Rollout, [][]*trinity.Experience) ([][]*trinity.Experience, error) {
				return nil, &trinity.RolloutError{Kind: trinity.FailedAgent, Err: errors.New("it acted"), Final: true}
			},
			calls: 1, failed: "task arms/0, run 0: it acted",
		},
		"one of them": {
			end: func(_ int, _ []*trinity.Rollout, exps [][]*trinity.Experience) ([][]*trinity.Experience, error) {
				exps[1] = nil
				return exps, late
			}, calls: 1, runs: 2, failed: "task arms/0, run 1: late",
		},
		"one without a reason": {
			end: func(_ int, _ []*trinity.Rollout, exps [][]*trinity.Experience) ([][]*trinity.Experience, error) {
				exps[2] = nil
				return exps, nil
			}, calls: 1, runs: 2, failed: "task arms/0, run 2: the workflow returned no experience of this rollout",
		},
		"too few": {
			end: func(_ int, _ []*trinity.Rollout, exps [][]*trinity.Experience) ([][]*trinity.Experience, error) {
				return exps[:2], nil
			}, calls: 3, failed: "task arms/0, run 0: the workflow returned experiences of 2 rollouts, and the group has 3",
		},
		"of another run": {
			end: func(_ int, _ []*trinity.Rollout, exps [][]*trinity.Experience) ([][]*trinity.Experience, error) {
				exps[0], exps[1] = exps[1], exps[0]
				return exps, nil
			}, calls: 3, failed: "task arms/0, run 0: the workflow returned experience",
		},
		"the engine": {
			end: func(int, []*trinity.Rollout, [][]*trinity.Experience) ([][]*trinity.Experience, error) {
				return nil, broken
			},
			calls: 1, ends: broken,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &joint{end: c.end}
			tasks, err := newTaskset(1, 3, w).all()
			if err != nil {
				t.Fatal(err)
			}
			outcomes, err := newRunner(trinitytest.NewBandit(3)).run(t.Context(), 1, tasks)
			if !errors.Is(err, c.ends) || len(w.calls) != c.calls {
				t.Fatalf("%v after %d calls, want %v after %d", err, len(w.calls), c.ends, c.calls)
			}
			if c.ends != nil {
				return
			}
			out := outcomes[0]
			if len(out.group) != c.runs || len(out.failed) != 3-c.runs {
				t.Errorf("%d experiences, failed %v", len(out.group), out.failed)
			}
			if c.failed != "" && !strings.HasPrefix(out.failed[0].Error(), c.failed) {
				t.Errorf("failed %v, want %s", out.failed[0], c.failed)
			}
		})
	}
}
