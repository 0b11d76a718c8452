package trainer

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/trinitytest"
)

// rewardToGo is an advantage: the reward minus the critic's value. The return is the reward.
func rewardToGo(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	for _, e := range slices.Concat(groups...) {
		if e.Values == nil {
			return nil, nil, errors.New("no values")
		}
		r := float32(e.Reward.Value)
		e.Returns, e.Advantages = []float32{0, r}, []float32{0, r - e.Values[1]}
	}
	return groups, nil, nil
}

// newCritic adds a critic of 6 states to the options.
func newCritic(t *testing.T, o *Options) *trinitytest.Critic {
	t.Helper()
	value, err := loss.NewValue(0.5)
	if err != nil {
		t.Fatal(err)
	}
	c := trinitytest.NewCritic(6)
	o.Critic = &Critic{Learner: Learner{Engine: c, Loss: value, Schedule: Schedule{LR: 0.5, Type: "constant"}}}
	o.Advantage = advantage{needs: trinity.Needs{Values: true}, score: rewardToGo}
	return c
}

// Every prompt ends with token 5, and every second reward is 1, the others 0: the critic's value
// approaches ½.
func TestCriticLearnsTheReturns(t *testing.T) {
	o, b, logged := newOptions(t, 12, new([]int64))
	c := newCritic(t, o)
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	for token, v := range c.Weights {
		if want := map[bool]float64{true: 0.5}[token == 5]; math.Abs(v-want) > 1e-3 {
			t.Errorf("value after token %d is %v, want %v", token, v, want)
		}
	}
	if b.Weights[1] <= b.Weights[0] {
		t.Errorf("logits %v", b.Weights)
	}
	first := (*logged)[0]
	for name, want := range map[string]float64{
		"critic/values/mean": 0, "critic/returns/mean": 0.5, "critic/returns/max": 1, "critic/advantages/mean": 0.5, // before the update
		"critic/vf_loss": 0.25, "critic/vpred_mean": 0, "critic/vf_clipfrac": 0, "critic/grad_norm": 0.5, "critic/lr": 0.5,
		"critic/vf_explained_var": 1 - (2.0/7)/(2.0/7+1e-5), // constant values explain nothing
	} {
		if got, ok := first[name]; !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s of step 1 is %v, want %v", name, got, want)
		}
	}
	if second := (*logged)[1]["critic/values/mean"]; math.Abs(second-0.25) > 1e-9 { // 0 + ½·½
		t.Errorf("values of step 2 are %v, want 0.25, the values after the first step", second)
	}
}

// The critic has its own number of optimizer steps in a train step.
func TestCriticHasItsOwnMiniBatchesAndEpochs(t *testing.T) {
	o, _, _ := newOptions(t, 1, new([]int64))
	c := newCritic(t, o)
	o.Critic.MiniBatch, o.Critic.Epochs = 4, 2
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := 0.5 - math.Pow(0.5, 5); math.Abs(c.Weights[5]-want) > 1e-6 { // each of 4 steps halves the distance
		t.Errorf("value %v, want %v", c.Weights[5], want)
	}
}

func TestWarmupTrainsOnlyTheCritic(t *testing.T) {
	o, b, logged := newOptions(t, 3, new([]int64))
	c := newCritic(t, o)
	o.Critic.Warmup = 2
	var logits, values []float64 // after each step
	o.Weights = publishFunc(func(int64) error {
		logits, values = append(logits, b.Weights[1]), append(values, c.Weights[5])
		return nil
	})
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	if logits[0] != 0 || logits[1] != 0 || logits[2] <= 0 || !slices.IsSorted(values) || values[0] <= 0 {
		t.Errorf("logits %v, values %v", logits, values)
	}
	for step, m := range *logged {
		if _, trained := m["actor/lr"]; trained != (step == 2) {
			t.Errorf("metrics of step %d: %v", step+1, m)
		}
	}
}

// A demonstration among the rollouts has no return. The policy trains on it, the critic does not.
func TestExperiencesWithoutReturnTeachNoCritic(t *testing.T) {
	o, b, _ := newOptions(t, 1, new([]int64))
	c := newCritic(t, o)
	o.Advantage = advantage{score: func(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
		for _, e := range slices.Concat(groups...) {
			e.Returns, e.Advantages = nil, []float32{0, 1}
		}
		return groups, nil, nil
	}}
	if err := New(*o).Run(t.Context(), t.Context()); err != nil || c.Weights[5] != 0 || b.Weights[1] <= 0 {
		t.Errorf("%v, value %v, logits %v", err, c.Weights[5], b.Weights)
	}
}

// broken is a critic whose forward or backward pass fails.
type broken struct {
	*trinitytest.Critic
	forward, backward error
}

func (b broken) Forward(ctx context.Context, batch *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	if b.forward != nil {
		return nil, b.forward
	}
	return b.Critic.Forward(ctx, batch, want)
}

func (b broken) ForwardBackward(context.Context, *trinity.Batch, trinity.Loss) (trinity.Metrics, error) {
	return nil, b.backward
}

func TestErrorNamesTheCritic(t *testing.T) {
	failed := errors.New("out of memory")
	for _, engine := range []broken{{forward: failed}, {backward: failed}} {
		o, _, _ := newOptions(t, 1, new([]int64))
		engine.Critic = newCritic(t, o)
		o.Critic.Engine = engine
		if err := New(*o).Run(t.Context(), t.Context()); !errors.Is(err, failed) || !strings.Contains(err.Error(), "trainer step 1: critic: ") {
			t.Error(err)
		}
	}
}
