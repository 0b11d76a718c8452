package explorer

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// host is a host whose models sample the adapter of their name.
type host struct {
	Host
	sampler trinity.Sampler
}

func (h host) Model(_ *trinity.Task, name string) (*trinity.Model, error) {
	if name == "absent" {
		return nil, fmt.Errorf("there is no model %q", name)
	}
	params := trinity.SamplingParams{Temperature: 1, Adapter: name}
	return &trinity.Model{Sampler: h.sampler, Renderer: trinitytest.PlainRenderer{}, Params: params}, nil
}

// consulting asks the host for two more models and keeps what it got.
type consulting struct{ seen map[string]*trinity.Model }

func (w consulting) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	for _, name := range []string{"judge", "user"} {
		m, err := r.Host.Model(name)
		if err != nil {
			return nil, err
		}
		w.seen[name] = m
	}
	for _, name := range []string{"absent", ""} {
		if _, err := r.Host.Model(name); err == nil {
			return nil, fmt.Errorf("the host returned model %q", name)
		}
	}
	w.seen["policy"] = r.Model
	return onePull{}.Run(ctx, r)
}

func TestModelsOfARolloutHaveOwnSeeds(t *testing.T) {
	w := consulting{map[string]*trinity.Model{}}
	tasks, _ := newTaskset(1, 1, w).all()
	outcomes, err := newRunner(trinitytest.NewBandit(2)).run(t.Context(), 3, tasks)
	if err != nil || len(outcomes[0].failed) > 0 {
		t.Fatal(err, outcomes[0].failed)
	}
	seeds := map[uint64]bool{}
	for name, m := range w.seen {
		seeds[m.Params.Seed] = true
		want := trinity.ExperienceID{Step: 3, Task: "arms/0"}
		if name == "policy" {
			name = ""
		}
		if m.Params.Adapter != name || m.ID != want {
			t.Errorf("model %q samples adapter %q as %s, want %s", name, m.Params.Adapter, m.ID, want)
		}
	}
	if len(seeds) != 3 {
		t.Errorf("three models draw from %d seeds", len(seeds))
	}
}

// scoring scores one pull with the rollout's reward function.
type scoring struct{}

func (scoring) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	exps, err := onePull{}.Run(ctx, r)
	if err != nil {
		return nil, err
	}
	return exps, r.Score(ctx, exps[0], trinity.Message{Role: "user", Content: "pull"})
}

// parts is a reward function with two parts.
type parts struct{ accuracy float64 }

func (p parts) Score(context.Context, trinity.RewardInput) (trinity.Reward, error) {
	return trinity.NewReward(map[string]float64{"accuracy": p.accuracy, "brevity": 0.5}), nil
}

func TestEachTasksetScoresWithItsOwnReward(t *testing.T) {
	r := newRunner(trinitytest.NewBandit(2))
	var all []*outcome
	for name, reward := range map[string]trinity.RewardFunc{"half": parts{0}, "more": parts{1}, "none": nil} {
		set := newTaskset(1, 2, scoring{})
		set.Template.Taskset, set.Reward = name, reward
		tasks, _ := set.all()
		outcomes, err := r.run(t.Context(), 1, tasks)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, outcomes...)
	}
	m := rolloutMetrics(all)
	for name, want := range map[string]float64{
		"reward/min": 0.5, "reward/max": 1.5, "accuracy/min": 0, "accuracy/max": 1, "brevity/mean": 0.5, "invalid_reward_count": 2,
	} {
		if got := m[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func (h host) Asker(task *trinity.Task, name string, own func(*trinity.Model) *trinity.Model) (trinity.Asker, error) {
	m, err := h.Model(task, name)
	if err != nil {
		return nil, err
	}
	return own(m).Asker(name), nil
}

// asking asks a model in words before it answers.
type asking struct {
	t    *testing.T
	seen map[string]bool
}

func (w asking) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	a, err := r.Host.Asker("judge")
	if err != nil {
		return nil, err
	}
	trinitytest.Asker(w.t, a)
	w.seen[fmt.Sprint(r.Model.SampledTokens())] = true
	return onePull{}.Run(ctx, r)
}

// What an asker writes is no token of the policy.
func TestARolloutAsksAModel(t *testing.T) {
	w := asking{t, map[string]bool{}}
	tasks, _ := newTaskset(1, 1, w).all()
	outcomes, err := newRunner(trinitytest.NewBandit(128)).run(t.Context(), 3, tasks)
	if err != nil || len(outcomes[0].failed) > 0 {
		t.Fatal(err, outcomes[0].failed)
	}
	if !w.seen["0"] || len(w.seen) != 1 {
		t.Errorf("the policy sampled %v tokens, want 0", w.seen)
	}
}

// While a rollout waits its turn, its deadline stands still.
func TestAWaitDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, free := withDeadline(t.Context(), time.Second, func() string { return "max_timeout" })
		defer free()
		err := (&rolloutHost{}).Wait(ctx, func(context.Context) error {
			time.Sleep(time.Minute)
			return context.Cause(ctx)
		})
		if err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if ctx.Err() == nil {
			t.Error("the deadline never passes")
		}
	})
}
