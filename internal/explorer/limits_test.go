package explorer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// ill is a sampler whose engine fails after a time, or when the call is cancelled.
type ill struct{ after time.Duration }

func (s ill) Sample(ctx context.Context, _ trinity.Prompt, _ trinity.SamplingParams) ([]trinity.Completion, error) {
	select {
	case <-time.After(s.after):
	case <-ctx.Done():
	}
	return nil, errors.New("out of memory")
}

// A turn that takes too long fails its rollout, and not the engine. The wait for a slot does not count.
func TestTurnsHaveADeadline(t *testing.T) {
	for name, c := range map[string]struct {
		sampler trinity.Sampler
		failed  string
		engine  bool
	}{
		"waits for its slot": {&slow{Sampler: trinitytest.NewBandit(3)}, "", false},
		"too slow":           {ill{time.Hour}, "explorer.turn_timeout of 2m0s passed", false},
		"a broken engine":    {ill{time.Second}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRunner(trinitytest.NewBandit(3))
				r.Host, r.Slots, r.Timeout, r.Turn, r.MaxRetries = host{sampler: c.sampler}, NewSlots(1, 4), time.Hour, 2*time.Minute, 0
				tasks, _ := newTaskset(1, 4, onePull{}).all()
				outcomes, err := r.run(t.Context(), 1, tasks)
				if broken := (*trinity.EngineError)(nil); errors.As(err, &broken) != c.engine {
					t.Fatalf("error %v", err)
				}
				if c.engine {
					return
				}
				failed := errors.Join(outcomes[0].failed...)
				if (failed == nil) != (c.failed == "") || failed != nil && !strings.Contains(failed.Error(), c.failed) {
					t.Errorf("failed: %v, want %q", failed, c.failed)
				}
				want := 0.0
				if c.failed != "" {
					want = 4
				}
				if got := rolloutMetrics(outcomes)["failed_timeout_count"]; got != want {
					t.Errorf("%g rollouts failed by a timeout, want %g", got, want)
				}
			})
		})
	}
}

// weighing is a reward function that takes its time, or forever in run 1.
type weighing struct{ takes time.Duration }

func (w weighing) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	if in.Experience.ID.Run == 1 {
		time.Sleep(time.Hour) // and ignores its context
	}
	select {
	case <-time.After(w.takes):
		return trinity.NewReward(map[string]float64{"right": 1}), nil
	case <-ctx.Done():
		return trinity.Reward{}, context.Cause(ctx)
	}
}

// A reward function that takes too long costs the reward of its rollout, and not the others'.
func TestRewardsHaveADeadline(t *testing.T) {
	for takes, late := range map[time.Duration]int{time.Second: 1, time.Minute: 4} {
		synctest.Test(t, func(t *testing.T) {
			r := newRunner(trinitytest.NewBandit(3))
			r.Timeout, r.Reward = 30*time.Minute, 10*time.Second
			set := newTaskset(1, 4, pulled{})
			set.Reward = weighing{takes}
			tasks, _ := set.all()
			outcomes, err := r.run(t.Context(), 1, tasks)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range outcomes[0].group {
				valid, reason := e.Reward.Valid, e.Reward.Reason
				if valid == (e.ID.Run == 1 || late == 4) || !valid && !strings.HasPrefix(reason, "explorer.reward_timeout of 10s passed") {
					t.Errorf("run %d: %+v", e.ID.Run, e.Reward)
				}
			}
			if m := rolloutMetrics(outcomes); len(outcomes[0].group) != 4 || m["failed_timeout_count"] != float64(late) {
				t.Errorf("%d experiences, %v", len(outcomes[0].group), m)
			}
			time.Sleep(time.Hour) // the run that ignores its context ends before the test does
		})
	}
}

// A wait that does not count against a reward's deadline does not count against the rollout's either.
func TestDeadlinesWithinDeadlinesPauseTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := func() string { return "time" }
		outer, free := withDeadline(t.Context(), 3*time.Second, name)
		defer free()
		inner, enough := withDeadline(outer, 2*time.Second, name)
		defer enough()
		err := (&rolloutHost{}).Wait(inner, func(context.Context) error {
			time.Sleep(time.Hour)
			return nil
		})
		if err != nil || outer.Err() != nil || inner.Err() != nil {
			t.Errorf("%v, %v, %v", err, outer.Err(), inner.Err())
		}
		time.Sleep(2*time.Second + time.Millisecond)
		if outer.Err() != nil || inner.Err() == nil {
			t.Errorf("two seconds later: outer %v, inner %v", outer.Err(), inner.Err())
		}
	})
}
