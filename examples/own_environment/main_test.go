package main

import (
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestCorridor(t *testing.T) {
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{},
		Act:  func(int, trinity.Observation) trinity.Action { return trinity.Action{Text: "left"} },
	}, &Corridor{Steps: 4})
	for seed, want := range map[uint64]float64{0: 1, 1: 0} { // the exit is on the left, on the right
		walk := &walk{Corridor: &Corridor{Steps: 4}}
		if _, err := walk.Reset(t.Context(), seed); err != nil {
			t.Fatal(err)
		}
		sum, steps, out := 0.0, 0, trinity.Outcome{}
		for !out.Done {
			var err error
			if out, err = walk.Step(t.Context(), trinity.Action{Text: "l"}); err != nil {
				t.Fatal(err)
			}
			sum += *out.Reward
			steps++
		}
		if sum != want || steps != map[uint64]int{0: 2, 1: 4}[seed] {
			t.Errorf("seed %d: reward %g in %d steps, want %g", seed, sum, steps, want)
		}
	}
}
