package explorer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/trinitytest"
)

// grader is a reward function that fails at the run of its number.
type grader struct {
	fails int
	err   error
}

func (g grader) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	if in.Experience.ID.Run == g.fails {
		return trinity.Reward{}, g.err
	}
	return trinity.NewReward(map[string]float64{"right": 1}), nil
}

// pulled is onePull that the task's reward function scores.
type pulled struct{ onePull }

func (p pulled) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	exps, err := p.onePull.Run(ctx, r)
	if err == nil {
		err = r.Score(ctx, exps[0])
	}
	return exps, err
}

// warned collects the lines of the log of failed rollouts.
type warned struct {
	telling
	lines []string
}

func (w *warned) Warn(err error) { w.lines = append(w.lines, err.Error()) }

func TestFailuresHaveTheirKind(t *testing.T) {
	sandbox := &trinity.RolloutError{Kind: trinity.FailedSandbox, Err: errors.New("no cgroup")}
	rewarded := func(err error) *Taskset {
		set := newTaskset(1, 2, pulled{})
		set.Reward = grader{1, err}
		return set
	}
	fails := func(reason string, err error) *Taskset {
		return newTaskset(1, 2, breaking(func(id trinity.ExperienceID) (string, error) {
			if id.Run == 0 {
				return "", nil
			}
			return reason, err
		}))
	}
	for name, c := range map[string]struct {
		set    *Taskset
		kind   string // counted
		failed float64
		line   string
	}{
		"a workflow":                 {fails("", errors.New("broken")), "workflow", 1, "workflow: task arms/0, run 1: broken"},
		"a sandbox":                  {fails("", sandbox), "sandbox", 1, "sandbox: task arms/0, run 1: no cgroup"},
		"a reward's sandbox":         {rewarded(sandbox), "sandbox", 0, "sandbox: task arms/0, run 1: no valid reward: no cgroup"},
		"a reward function":          {rewarded(errors.New("no file")), "reward", 0, "reward: task arms/0, run 1: no valid reward: no file"},
		"a reply without its number": {fails("no number", nil), "", 0, "reward: task arms/0, run 1: no valid reward: no number"},
	} {
		tasks, err := c.set.all()
		if err != nil {
			t.Fatal(err)
		}
		r := newRunner(trinitytest.NewBandit(3))
		r.MaxRetries = 0
		outcomes, err := r.run(t.Context(), 1, tasks)
		if err != nil {
			t.Fatal(err)
		}
		var log warned
		record(&log, outcomes)
		if got := strings.Join(log.lines, "\n"); got != c.line {
			t.Errorf("%s: the log says %q, want %q", name, got, c.line)
		}
		m := rolloutMetrics(outcomes)
		for _, kind := range []string{"workflow", "sandbox", "reward"} {
			want := 0.0
			if kind == c.kind {
				want = 1
			}
			if got := m["failed_"+kind+"_count"]; got != want || m["failed_run_count"] != c.failed {
				t.Errorf("%s: %g by %s of %g failed rollouts, want %g of %g", name, got, kind, m["failed_run_count"], want, c.failed)
			}
		}
	}
}

// Rewards that fail count as failures of a taskset, too.
func TestFailedRewardsEndTheRun(t *testing.T) {
	e := newExplorer(t, buffer.NewQueue(1000, 0, nil), 60)
	set := newTaskset(8, 2, pulled{})
	set.Reward = grader{1, &trinity.RolloutError{Kind: trinity.FailedModel, Err: errors.New("no judge")}}
	e.opts.Agenda, e.opts.MaxFailedRatio = NewAgenda(mix(t, set), nil, 2), 0.4
	e.opts.Recorder = &warned{telling: telling{shares: map[int64]float64{}}}
	err := e.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "50 of the last 100 rollouts of taskset arms failed (50 by model)") {
		t.Errorf("the run ends with %v", err)
	}
}
