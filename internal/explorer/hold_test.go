package explorer

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// halfKnown had computed half of each prompt before.
type halfKnown struct{ trinity.Sampler }

func (s halfKnown) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	out, err := s.Sampler.Sample(ctx, prompt, p)
	out[0].Reused = len(prompt.Tokens) / 2
	return out, err
}

// twoCalls calls the model twice, and shows when its rollout has ended.
type twoCalls struct{ ended chan (<-chan struct{}) }

func (w twoCalls) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	select {
	case <-r.Model.Ended:
	default:
		w.ended <- r.Model.Ended
	}
	if m, err := r.Host.Model("other"); err != nil || m.Ended != r.Model.Ended {
		return nil, fmt.Errorf("another model of the rollout ends apart from it: %w", err)
	}
	if _, err := r.Model.Generate(ctx, make([]int32, 8)); err != nil {
		return nil, err
	}
	return onePull{}.Run(ctx, r)
}

func TestRolloutsEndTheirHolds(t *testing.T) {
	bandit := trinitytest.NewBandit(3)
	r := newRunner(bandit)
	r.Host = host{sampler: halfKnown{bandit}}
	w := twoCalls{make(chan (<-chan struct{}), 8)}
	tasks, _ := newTaskset(2, 4, w).all()
	outcomes, err := r.run(t.Context(), 1, tasks)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		select {
		case <-<-w.ended:
		default:
			t.Error("a rollout has ended, and the sampler still keeps its pages")
		}
	}
	m := rolloutMetrics(outcomes)
	if got, known := m["prefill_reused_ratio/mean"]; !known || got <= 0 || got > 0.5 {
		t.Errorf("prefill_reused_ratio is %v, %v", got, known)
	}
	if !timed("rollout/prefill_reused_ratio/mean") {
		t.Error("a ratio that depends on the sampler's schedule is in the explorer's state")
	}
	tasks, _ = newTaskset(2, 4, onePull{}).all()
	if outcomes, err = r.run(t.Context(), 2, tasks); err != nil {
		t.Fatal(err)
	}
	if got, known := rolloutMetrics(outcomes)["prefill_reused_ratio/mean"]; known {
		t.Errorf("rollouts of one call have a prefill_reused_ratio: %v", got)
	}
}

// backwards ends the rollouts of a group from the last to the first. Each has another share of prompts
// that its sampler knew.
type backwards struct{ ended []chan struct{} }

func (w backwards) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	run := r.Model.ID.Run
	if run+1 < len(w.ended) {
		<-w.ended[run+1]
	}
	defer close(w.ended[run])
	for _, n := range []int{1, 3 + run} {
		if _, err := r.Model.Generate(ctx, make([]int32, n)); err != nil {
			return nil, err
		}
	}
	return onePull{}.Run(ctx, r)
}

// Which rollout ends first does not change the order of a sum.
func TestReuseHasTheOrderOfRollouts(t *testing.T) {
	bandit := trinitytest.NewBandit(3)
	r := newRunner(bandit)
	r.Host = host{sampler: halfKnown{bandit}}
	w := backwards{}
	for range 4 {
		w.ended = append(w.ended, make(chan struct{}))
	}
	tasks, _ := newTaskset(1, 4, w).all()
	outcomes, err := r.run(t.Context(), 1, tasks)
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	for n := 3; n < 7; n++ {
		want = append(want, float64(n/2+2)/float64(n+4)) // the last call has 4 tokens
	}
	if got := outcomes[0].reused; !slices.Equal(got, want) {
		t.Errorf("the shares are %v, want %v", got, want)
	}
}
