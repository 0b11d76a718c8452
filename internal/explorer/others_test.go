package explorer

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	_ "github.com/trinity-go/trinity/algorithm/advantage"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// luck is a reward function of the rollout's place alone. Where lost is set, it fails in 15 % of the
// rollouts, and the workflow in as many.
type luck struct {
	onePull
	lost bool
}

func (l luck) drawn(id trinity.ExperienceID) *rand.Rand {
	return rand.New(rand.NewPCG(trinity.Seed(5, id.Step, id.Task, id.Run), 0))
}

func (l luck) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	exps, err := l.onePull.Run(ctx, r)
	if err != nil {
		return nil, err
	}
	rng := l.drawn(r.Model.ID)
	value, fate := rng.Float64(), rng.Float64()
	exps[0].Reward = trinity.NewReward(map[string]float64{"luck": value})
	switch {
	case l.lost && fate < 0.15:
		return nil, &trinity.RolloutError{Kind: trinity.FailedTool, Err: errors.New("no disk")}
	case l.lost && fate < 0.3:
		exps[0].Reward = trinity.Reward{Reason: "no judge", Kind: trinity.FailedModel}
	}
	return exps, nil
}

// When 30 % of the rollouts fail, the rewards and advantages are those of the other rollouts: a failed
// rollout does not count as reward 0.
func TestStatisticsAreThoseOfTheOthers(t *testing.T) {
	explored := func(lost bool) []*outcome {
		r := newRunner(trinitytest.NewBandit(3))
		r.MaxRetries = 0
		tasks, err := newTaskset(12, 8, luck{lost: lost}).all()
		if err != nil {
			t.Fatal(err)
		}
		outcomes, err := r.run(t.Context(), 1, tasks)
		if err != nil {
			t.Fatal(err)
		}
		return outcomes
	}
	all, some := explored(false), explored(true)
	lost, means := 0, []float64{}
	var groups []trinity.Group
	want := map[trinity.ExperienceID]float64{}
	for i, o := range all {
		var rewards []float64
		for _, e := range o.group {
			j := slices.IndexFunc(some[i].group, func(x *trinity.Experience) bool { return x.ID == e.ID && x.Reward.Valid })
			if j < 0 {
				lost++
				continue
			}
			if x := some[i].group[j]; !slices.Equal(x.Tokens, e.Tokens) || x.Reward.Value != e.Reward.Value {
				t.Errorf("%s: %v with reward %g, and without the lost ones %v with %g", e.ID, x.Tokens, x.Reward.Value, e.Tokens, e.Reward.Value)
			}
			rewards = append(rewards, e.Reward.Value)
			want[e.ID] = e.Reward.Value
		}
		centre, spread := mean(rewards), std(rewards)*math.Sqrt(float64(len(rewards))/float64(len(rewards)-1))
		for _, e := range o.group {
			if v, ok := want[e.ID]; ok {
				want[e.ID] = (v - centre) / (spread + 1e-6)
			}
		}
		means, groups = append(means, centre), append(groups, some[i].group)
	}
	if lost < 20 || lost > 38 {
		t.Fatalf("%d of 96 rollouts are lost", lost)
	}
	m := rolloutMetrics(some)
	if got := m["reward/mean"]; math.Abs(got-mean(means)) > 1e-12 {
		t.Errorf("reward/mean is %v, that of the others %v", got, mean(means))
	}
	if got := m["failed_tool_count"] + m["failed_model_count"]; got != float64(lost) {
		t.Errorf("%g rollouts are counted as failed, want %d", got, lost)
	}
	grpo, err := registry.Advantages.Build("grpo", nil)
	if err != nil {
		t.Fatal(err)
	}
	groups, _, err = grpo.Advantages(t.Context(), groups)
	if err != nil {
		t.Fatal(err)
	}
	got := map[trinity.ExperienceID]float64{}
	for _, g := range groups {
		for _, e := range g {
			got[e.ID] = float64(e.Advantages[len(e.Tokens)-1])
		}
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-5 }
	if !maps.EqualFunc(got, want, near) {
		t.Errorf("advantages %v\nwant %v", got, want)
	}
}
