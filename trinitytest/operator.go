package trinitytest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func counts(r trinity.Reward) bool { return r.Valid && finite(r.Value) }

// Operator checks the contract of operators that edit and drop experiences and add none. build
// returns a new, equal operator each time.
func Operator(t *testing.T, build func() trinity.Operator) {
	for name := range steps() {
		t.Run(name, func(t *testing.T) {
			in := steps()[name]
			var before []trinity.Group // the experiences before the operator
			for _, g := range in {
				before = append(before, slices.Clone(g))
			}
			reward := map[*trinity.Experience]trinity.Reward{}
			for e := range slices.Values(slices.Concat(in...)) {
				reward[e] = e.Reward
			}
			kept, metrics, err := build().Process(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			inOrder(t, before, kept)
			for _, e := range slices.Concat(kept...) {
				if err := e.Check(); err != nil {
					t.Error(err)
				}
				if r := reward[e]; !counts(r) && counts(e.Reward) || counts(r) && e.Reward.Valid && !finite(e.Reward.Value) {
					t.Errorf("%s: the reward %+v became %+v", e.ID, r, e.Reward)
				}
			}
			for m, v := range metrics {
				if !finite(v) {
					t.Errorf("metric %s is %v", m, v)
				}
			}
			want := describe(kept, metrics)
			for range 5 { // a sum in map order differs now and then
				kept, metrics, err := build().Process(t.Context(), steps()[name])
				if got := describe(kept, metrics); err != nil || got != want {
					t.Fatalf("the same step again gives %s, %v\nwant %s", got, err, want)
				}
			}
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			if _, _, err := build().Process(cancelled, steps()[name]); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("with a cancelled context: %v", err)
			}
		})
	}
}

// inOrder checks that every group of kept is part of a group of all, and that the order is the
// same.
func inOrder(t *testing.T, all, kept []trinity.Group) {
	t.Helper()
	for _, g := range kept {
		for len(g) > 0 && len(all) > 0 && !slices.Contains(all[0], g[0]) {
			all = all[1:]
		}
		for _, e := range g {
			at := -1
			if len(all) > 0 {
				at = slices.Index(all[0], e)
			}
			if at < 0 {
				t.Fatalf("%s is in the wrong place or group, occurs twice, or was not in the input", e.ID)
			}
			all[0] = all[0][at+1:]
		}
	}
}

func describe(kept []trinity.Group, metrics trinity.Metrics) string {
	s := fmt.Sprint(metrics)
	for _, g := range kept {
		s += "\n"
		for _, e := range g {
			s += fmt.Sprintf(" %+v", *e)
		}
	}
	return s
}
