package explorer

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// lagging is a workflow that takes a second, and in the second run of the last task an hour.
func lagging(last string) onePull {
	return onePull{before: func(ctx context.Context, task *trinity.Task, run int) error {
		takes := time.Second
		if task.ID == last && run == 1 {
			takes = time.Hour
		}
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
}

func TestStepEndsWithEnoughTasks(t *testing.T) {
	for _, c := range []struct {
		name   string
		over   OverRollout
		eval   bool
		groups int // complete or partial
		took   time.Duration
	}{
		{"waits for all", OverRollout{}, false, 4, time.Hour},
		{"drops the group", OverRollout{Ratio: 0.25, Wait: time.Minute}, false, 3, time.Minute + time.Second},
		{"keeps a part of it", OverRollout{Ratio: 0.25, Wait: time.Minute, Partial: true}, false, 4, time.Minute + time.Second},
		{"rounds up", OverRollout{Ratio: 0.2, Wait: time.Minute}, false, 4, time.Hour},
		{"not in an evaluation", OverRollout{Ratio: 0.25, Wait: time.Minute}, true, 4, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRunner(trinitytest.NewBandit(3))
				r.Timeout, r.Over, r.Slots = 2*time.Hour, c.over, NewSlots(8, 8)
				set := newTaskset(4, 2, lagging("arms/3"))
				set.Template.Eval = c.eval
				tasks, _ := set.all()
				start := time.Now()
				outcomes, err := r.run(t.Context(), 1, tasks)
				if err != nil {
					t.Fatal(err)
				}
				groups, failed := 0, 0
				for _, o := range outcomes {
					failed += len(o.failed)
					if len(o.group) > 0 {
						groups++
					}
				}
				if took := time.Since(start); took != c.took || groups != c.groups || failed > 0 {
					t.Errorf("%d groups after %v, %d failed; want %d after %v", groups, took, failed, c.groups, c.took)
				}
				want := 0.0
				if c.took < time.Hour {
					want = 1
				}
				if got := rolloutMetrics(outcomes)["failed_cancelled_count"]; got != want {
					t.Errorf("failed_cancelled_count %v, want %v", got, want)
				}
			})
		})
	}
}

func TestDeadlineFollowsTheTempo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(trinitytest.NewBandit(3))
		r.Timeout, r.MaxRetries, r.Tempo = 2*time.Hour, 0, &Tempo{Ratio: 3, Warmup: 2}
		quick, _ := newTaskset(2, 2, lagging("")).all()
		slow, _ := newTaskset(2, 2, lagging("arms/1")).all()
		failed := func(tasks []job) (lines string) {
			outcomes, err := r.run(t.Context(), 1, tasks)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range outcomes {
				for _, err := range o.failed {
					lines += err.Error()
				}
			}
			return lines
		}
		if got := failed(quick) + failed(quick); got != "" {
			t.Error(got)
		}
		if got := failed(slow); !strings.Contains(got, "explorer.dynamic_timeout of 3s, which is 3 times the mean of rollouts, passed") {
			t.Errorf("failed %q", got)
		}
		slow[0].Eval, slow[1].Eval = true, true
		if got := failed(slow); got != "" {
			t.Errorf("in an evaluation: %s", got)
		}
	})
}

func TestTooManyFailuresEndTheRun(t *testing.T) {
	e := New(Options{MaxFailedRatio: 0.25})
	rollouts := func(failed, ok int) []*outcome {
		o := &outcome{task: &trinity.Task{Taskset: "games"}, elapsed: make([]time.Duration, ok)}
		for i := range failed {
			err := error(&trinity.RolloutError{Kind: trinity.FailedEnvironment, Err: context.Canceled})
			if i == 0 {
				err = context.Canceled
			}
			o.failed = append(o.failed, err)
		}
		return []*outcome{o}
	}
	for i, step := range [][]*outcome{rollouts(50, 0), rollouts(0, 49), rollouts(0, 60), rollouts(20, 0)} {
		if err := e.tooMany(step); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	err := e.tooMany(rollouts(6, 0))
	const want = "26 of the last 100 rollouts of taskset games failed (24 by environment, 2 by workflow), " +
		"more than explorer.max_failed_ratio 0.25"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
