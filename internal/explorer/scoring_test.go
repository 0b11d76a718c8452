package explorer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// ranks is a reward function that scores a group by the place of each reply.
type ranks struct {
	groups atomic.Int32
	score  func(ctx context.Context, n int) error
}

func (*ranks) Score(context.Context, trinity.RewardInput) (trinity.Reward, error) {
	return trinity.Reward{}, errors.New("a reply without its group")
}

func (r *ranks) ScoreGroup(ctx context.Context, in []trinity.RewardInput) ([]trinity.Reward, error) {
	r.groups.Add(1)
	rewards := make([]trinity.Reward, len(in))
	for i := range in {
		rewards[i] = trinity.NewReward(map[string]float64{"rank": float64(i + 1)})
	}
	if r.score == nil {
		return rewards, nil
	}
	return rewards, r.score(ctx, len(in))
}

// twice scores its second experience, and gives the first one the same reward. Run 1 fails.
type twice struct{}

func (twice) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	first, err := onePull{}.Run(ctx, r)
	if err != nil {
		return nil, err
	}
	second, err := onePull{}.Run(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := r.Score(ctx, second[0]); err != nil {
		return nil, err
	}
	first[0].Reward = second[0].Reward
	if r.Model.ID.Run == 1 {
		return nil, errors.New("broken")
	}
	return append(first, second...), nil
}

func scored(t *testing.T, ctx context.Context, of *ranks, timeout time.Duration) (*outcome, error) {
	t.Helper()
	set := newTaskset(1, 4, twice{})
	set.Reward = of
	tasks, err := set.all()
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(trinitytest.NewBandit(3))
	r.Timeout = timeout
	outcomes, err := r.run(ctx, 1, tasks)
	if err != nil {
		return nil, err
	}
	return outcomes[0], nil
}

func TestAGroupRewardScoresTheWholeGroupAtOnce(t *testing.T) {
	of := &ranks{}
	out, err := scored(t, t.Context(), of, time.Minute)
	if err != nil || of.groups.Load() != 1 || len(out.group) != 6 || len(out.failed) != 1 {
		t.Fatalf("%d groups, %+v, %v", of.groups.Load(), out, err)
	}
	got := ""
	for _, e := range out.group {
		got += fmt.Sprintf("%d/%d=%g ", e.ID.Run, e.ID.Turn, e.Reward.Value)
	}
	if want := "0/0=1 0/1=1 2/0=2 2/1=2 3/0=3 3/1=3 "; got != want {
		t.Errorf("rewards %s, want %s", got, want)
	}
}

func TestAGroupThatCannotBeScoredHasNoReward(t *testing.T) {
	for name, c := range map[string]struct {
		score func(ctx context.Context, n int) error
		want  string
	}{
		"error": {func(context.Context, int) error { return errors.New("no judge") }, "scoring the group: no judge"},
		"panic": {func(context.Context, int) error { panic("index") }, "scoring the group: workflow panicked: index"},
		"hang": {func(ctx context.Context, _ int) error { <-ctx.Done(); return context.Cause(ctx) },
			"scoring the group: explorer.max_timeout of 1s passed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out, err := scored(t, t.Context(), &ranks{score: c.score}, time.Second)
				if err != nil || len(out.group) != 6 {
					t.Fatalf("%+v, %v", out, err)
				}
				for _, e := range out.group {
					if e.Reward.Valid || len(e.Reward.Reason) < len(c.want) || e.Reward.Reason[:len(c.want)] != c.want {
						t.Errorf("%s: reward %+v, want %q", e.ID, e.Reward, c.want)
					}
				}
			})
		})
	}
	broken := &trinity.EngineError{Err: errors.New("out of memory")}
	_, err := scored(t, t.Context(), &ranks{score: func(context.Context, int) error { return broken }}, time.Second)
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want the engine's", err)
	}
}
