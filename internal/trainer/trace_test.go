package trainer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// told is a tracer that keeps what it is told.
type told struct {
	spans   []trinity.Span
	trained []trinity.Trained
	slow    time.Duration
}

func (l *told) Span(s trinity.Span) {
	time.Sleep(l.slow)
	l.spans = append(l.spans, s)
}
func (l *told) Trained(s trinity.Trained)    { l.trained = append(l.trained, s) }
func (l *told) Failed(trinity.FailedRollout) {}

// A trace has every optimizer step that learned from an experience, and the loss's derivative by each
// token. The tracer does not change the weights.
func TestTraceHasTheDerivativeOfEachToken(t *testing.T) {
	var saved []int64
	weights := map[string][]float64{}
	for name, to := range map[string]*told{"none": nil, "all": {}, "slow": {slow: time.Millisecond}} {
		o, b, _ := newOptions(t, 3, &saved)
		o.Policy.MiniBatch, o.Policy.Epochs = 4, 2
		if to != nil {
			o.Tracing = Tracing{Tracer: to, Groups: -1, Every: 2}
		}
		if err := New(*o).Run(t.Context(), t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, w := range b.Weights {
			weights[name] = append(weights[name], float64(w))
		}
		if to == nil {
			continue
		}
		if len(to.trained) != 2 || to.trained[0].Step != 1 || to.trained[1].Step != 3 {
			t.Fatalf("%s: told of %d train steps", name, len(to.trained))
		}
		for _, e := range to.trained[0].Experiences {
			if len(e.Updates) != 2 || e.Updates[1].Index != e.Updates[0].Index+2 || e.Dropped != "" {
				t.Errorf("%s: experience %s has the updates %+v", name, e.ID, e.Updates)
			}
			for _, u := range e.Updates {
				checkDerivative(t, &e.Experience, u)
			}
		}
	}
	if fmt.Sprint(weights["all"]) != fmt.Sprint(weights["none"]) || fmt.Sprint(weights["slow"]) != fmt.Sprint(weights["none"]) {
		t.Errorf("a tracer changes the weights: %v", weights)
	}
}

// checkDerivative compares a derivative with a difference quotient of the loss.
func checkDerivative(t *testing.T, e *trinity.Experience, u trinity.Update) {
	t.Helper()
	whole := scored(4)
	const h = 1e-3
	loss := func(by float32) float64 {
		now := trinity.TokenStats{Logprob: slices.Clone(u.Now.Logprob)}
		now.Logprob[1] += by
		_, m, err := (reinforce{}).Loss(&trinity.Batch{Experiences: []*trinity.Experience{e}, Whole: whole}, []trinity.TokenStats{now})
		if err != nil {
			t.Fatal(err)
		}
		return m["final_loss"]
	}
	if want := (loss(h) - loss(-h)) / (2 * h); math.Abs(want-float64(u.Grads.Logprob[1])) > 1e-4 || want == 0 {
		t.Errorf("%s: the derivative is %g, want %g", e.ID, u.Grads.Logprob[1], want)
	}
}

// A trace tells who dropped an experience.
func TestTraceNamesWhoDropped(t *testing.T) {
	var saved []int64
	o, _, _ := newOptions(t, 1, &saved)
	to := &told{}
	o.Tracing = Tracing{Tracer: to, Groups: 1, Every: 1}
	o.Advantage = dropFirst{}
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	all := to.trained[0].Experiences
	if len(all) != 8 || all[7].ID.Run != 0 || all[7].Dropped != "advantage" || all[7].Updates != nil || all[0].Dropped != "" {
		t.Errorf("told %+v", all)
	}
	kinds := map[string]int{}
	for _, s := range to.spans {
		if s.Step != 1 && s.Step != 2 || s.Role != "trainer" || s.End.Before(s.Begin) {
			t.Errorf("span %+v", s)
		}
		kinds[fmt.Sprint(s.Kind, " ", s.Name, s.For)]++
	}
	want := map[string]int{"wait data": 2, "forward policy": 1, "backward policy": 1, "update policy": 1, "checkpoint ": 1}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("spans %v, want %v", kinds, want)
	}
}

// dropFirst is an advantage that drops the first experience of each group.
type dropFirst struct{}

func (dropFirst) Needs() trinity.Needs { return trinity.Needs{Batch: true} }

func (dropFirst) Advantages(_ context.Context, groups []trinity.Group) (kept []trinity.Group, _ trinity.Metrics, _ error) {
	for _, g := range groups {
		kept = append(kept, g[1:])
	}
	return kept, trinity.Metrics{}, nil
}

// A sample has the groups with the best, the worst, the longest and an invalid experience, and others
// that the seed draws.
func TestSampleHoldsTheExtremes(t *testing.T) {
	var groups []trinity.Group
	for i := range 20 {
		e := &trinity.Experience{Tokens: make([]int32, 5), Reward: trinity.NewReward(map[string]float64{"r": .5})}
		switch i {
		case 3:
			e.Reward = trinity.NewReward(map[string]float64{"r": 2})
		case 7:
			e.Reward = trinity.NewReward(map[string]float64{"r": -1})
		case 11:
			e.Tokens = make([]int32, 9)
		case 15:
			e.Reward = trinity.InvalidReward("none")
		}
		groups = append(groups, trinity.Group{e})
	}
	chosen := (&Tracing{Groups: 4}).choose(1, groups)
	if !slices.Equal(chosen, []int{3, 7, 11, 15}) {
		t.Errorf("chose %v", chosen)
	}
	one, two := (&Tracing{Groups: 7, Seed: 1}).choose(1, groups), (&Tracing{Groups: 7, Seed: 1}).choose(1, groups)
	other := (&Tracing{Groups: 7, Seed: 2}).choose(1, groups)
	if len(one) != 7 || !slices.Equal(one, two) || slices.Equal(one, other) || !slices.IsSorted(one) {
		t.Errorf("chose %v, %v and %v", one, two, other)
	}
	if chosen := (&Tracing{Groups: 2}).choose(1, groups[:2]); !slices.Equal(chosen, []int{0, 1}) {
		t.Errorf("chose %v of two", chosen)
	}
	if chosen := (&Tracing{Groups: 1}).choose(1, nil); len(chosen) != 0 {
		t.Errorf("chose %v of none", chosen)
	}
}
