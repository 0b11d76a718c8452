package explorer

import (
	"fmt"
	"math"
	"testing"
)

func TestFixedPace(t *testing.T) {
	for _, c := range []struct{ interval, offset, step, want int64 }{
		{1, 0, 1, 0}, {1, 0, 2, 1}, {1, 0, 9, 8}, // on-policy
		{4, 0, 4, 0}, {4, 0, 5, 4}, {4, 0, 8, 4}, // every four steps
		{1, 1, 2, 0}, {1, 1, 3, 1}, // one step off-policy
		{2, 1, 3, 0}, {2, 1, 4, 2},
	} {
		p := &Pace{Style: "fixed", Interval: c.interval, Offset: c.offset, MaxStaleness: 1}
		if got := p.Required(c.step); got != c.want || p.Newest(c.step) {
			t.Errorf("interval %d, offset %d: step %d needs version %d, want %d, and never a newer one", c.interval, c.offset, c.step, got, c.want)
		}
	}
}

// In asynchronous styles a step needs a version that is still new enough when the trainer takes the
// step's experiences.
func TestPaceBoundsStaleness(t *testing.T) {
	for _, c := range []struct {
		perStep, perBatch int64
		staleness         float64
		want              string // of steps 1 to 6
	}{
		{8, 8, math.Inf(1), "[0 0 0 0 0 0]"},
		{8, 8, 1, "[0 1 2 3 4 5]"},
		{8, 8, 3.5, "[0 0 0 1 2 3]"},
		{16, 8, 2, "[0 2 4 6 8 10]"}, // two train steps for an explore step
		{8, 16, 1, "[0 0 1 1 2 2]"},  // half a train step
	} {
		p := &Pace{Style: "fully_async", Interval: 1, MaxStaleness: c.staleness, PerStep: c.perStep, PerBatch: c.perBatch}
		var got []int64
		for step := range int64(6) {
			got = append(got, p.Required(step+1))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%+v: steps need versions %v, want %s", c, got, c.want)
		}
	}
}

func TestNewestVersions(t *testing.T) {
	for style, want := range map[string]string{
		"fixed": "[false false false false]", "explorer_driven": "[true false false true]",
		"trainer_driven": "[true true true true]", "fully_async": "[true true true true]",
	} {
		p := &Pace{Style: style, Interval: 3}
		var got []bool
		for step := range int64(4) {
			got = append(got, p.Newest(step+1))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s looks for the newest at steps %v, want %s", style, got, want)
		}
	}
}

// A version rests on every explore step of which the trainer used at least one experience.
func TestVersionRestsOnWholeSteps(t *testing.T) {
	for _, c := range []struct {
		style             string
		perStep, perBatch int64
		staleness         float64
		want              string // of steps 1 to 6
	}{
		{"fixed", 8, 8, math.Inf(1), "[0 1 2 3 4 5]"},
		{"fully_async", 8, 8, math.Inf(1), "[0 0 0 0 0 0]"},
		{"fully_async", 8, 8, 1, "[0 1 2 3 4 5]"},
		{"fully_async", 16, 8, 2, "[0 1 2 3 4 5]"}, // versions 0 2 4 6 8 10: 80 of 16
		{"fully_async", 16, 8, 3, "[0 1 2 3 4 5]"}, // versions 0 1 3 5 7 9: 8 of 16 are of step 1, 72 of step 5
		{"fully_async", 12, 8, 4, "[0 0 1 2 3 4]"}, // versions 0 0 1 2 4 5: 8, 16, 32 and 40 of 12, rounded up 1 2 3 4
		{"fully_async", 8, 16, 1, "[0 0 2 2 4 4]"}, // versions 0 0 1 1 2 2: 16 and 32 of 8
	} {
		p := &Pace{Style: c.style, Interval: 1, MaxStaleness: c.staleness, PerStep: c.perStep, PerBatch: c.perBatch}
		var got []int64
		for step := range int64(6) {
			got = append(got, p.restsOn(step+1))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%+v: steps rest on %v, want %s", c, got, c.want)
		}
	}
}
