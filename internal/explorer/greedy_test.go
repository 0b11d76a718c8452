package explorer

import (
	"context"
	"errors"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// twoSteps returns two experiences. The reward of the last is the temperature plus 10 times the run
// plus 1. Greedy rollouts fail with the error greedy.
type twoSteps struct {
	greedy   error
	compared *[]*trinity.Experience
	rankedAt *float32
}

func (w twoSteps) Run(_ context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	m := r.Model
	if m.Params.Temperature == 0 && w.greedy != nil {
		return nil, w.greedy
	}
	reward := trinity.Reward{Value: float64(m.Params.Temperature) + 10*float64(m.ID.Run), Valid: true}
	var out []*trinity.Experience
	for turn := range 2 {
		e := &trinity.Experience{
			ID: m.ID, Tokens: make([]int32, 2), Mask: []bool{false, true}, PromptLen: 1, Reward: reward, Info: map[string]any{"turn": turn},
		}
		e.ID.Turn = turn
		reward.Value++
		out = append(out, e)
	}
	return out, nil
}

func (w twoSteps) Compare(_ context.Context, r *trinity.Rollout, group trinity.Group) error {
	*w.compared, *w.rankedAt = group, r.Model.Params.Temperature
	return nil
}

func TestGreedyBaseline(t *testing.T) {
	for _, c := range []struct {
		name   string
		greedy bool
		eval   bool
		fails  error
		want   any // reward_baseline
		ranked int // experiences that are compared
	}{
		{"the last step's reward", true, false, nil, 21.0, 6}, // run 2, temperature 0, second step
		{"a greedy rollout that failed", true, false, errors.New("broken tool"), nil, 4},
		{"not asked for", false, false, nil, "absent", 4},
		{"not in an evaluation", true, true, nil, "absent", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			var compared []*trinity.Experience
			var at float32
			w := twoSteps{c.fails, &compared, &at}
			r := newRunner(trinitytest.NewBandit(2))
			r.Greedy, r.MaxRetries = c.greedy, 0
			ts := newTaskset(1, 2, w)
			ts.Template.Eval = c.eval
			tasks, _ := ts.all()
			outcomes, err := r.run(t.Context(), 1, tasks)
			if err != nil {
				t.Fatal(err)
			}
			group := outcomes[0].group
			if len(group) != 4 || len(compared) != c.ranked || at != 1 {
				t.Fatalf("%d experiences left, %d compared at temperature %v; want 4, %d, 1", len(group), len(compared), at, c.ranked)
			}
			for i, e := range group {
				got, present := e.Info["reward_baseline"]
				if !present {
					got = "absent"
				}
				if got != c.want || e.Info["turn"] != i%2 || e.ID.Run != i/2 {
					t.Errorf("%s: baseline %v, want %v; info %v", e.ID, got, c.want, e.Info)
				}
			}
		})
	}
}
