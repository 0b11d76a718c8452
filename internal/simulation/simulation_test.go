package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/trinity-go/trinity/algorithm/sample"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/weights"
)

// even returns a setting with one train step for each explore step and a queue with room.
func even(style string, interval, offset, steps int64) Setting {
	handover := map[string]weights.Handover{
		"explorer_driven": weights.WhenAsked, "trainer_driven": weights.WhenAsked, "fully_async": weights.AtOnce,
	}
	return Setting{
		Pace:     explorer.Pace{Style: style, Interval: interval, Offset: offset, MaxStaleness: math.Inf(1), PerStep: 4, PerBatch: 4},
		Handover: handover[style], PublishInterval: interval, Capacity: 1000, Batch: 4, InFlight: 4, Steps: steps,
	}
}

func rates(explore, train, slowdown float64) Rates {
	return Rates{Explore: explore, Train: train, Slowdown: slowdown, Lengths: Lengths{Mean: 10}}
}

// The times of these runs of four steps are computed by hand.
func TestTimesComputedByHand(t *testing.T) {
	publishing := rates(3, 1, 1)
	publishing.Sync = 1
	for _, c := range []struct {
		name                     string
		setting                  Setting
		rates                    Rates
		seconds, explorer, train float64 // idle shares
		versions                 string
	}{
		{"one after the other", even("fixed", 1, 0, 4), rates(3, 1, 2), 16, 1 - 12.0/15, 1 - 4.0/16, "[0 1 2 3]"},
		{"the explorer waits for publications", even("fixed", 1, 0, 4), publishing, 20, 1 - 12.0/18, 1 - 8.0/20, "[0 1 2 3]"},
		{"every other step", even("fixed", 2, 0, 4), rates(1, 1, 1), 6, 1 - 4.0/5, 1 - 4.0/6, "[0 0 2 2]"},
		{"one step behind, separate cores", even("fixed", 1, 1, 4), rates(3, 1, 1), 13, 0, 1 - 4.0/13, "[0 0 1 2]"},
		{"one step behind, slow trainer", even("fixed", 1, 1, 4), rates(1, 3, 1), 13, 1 - 4.0/8, 1 - 12.0/13, "[0 0 1 2]"},
		// 3 s alone. Then steps 2 to 4 take 2 s while the trainer works for 1 s, and 2 s alone:
		// 3·(2 + 2). The last train step takes 1 s.
		{"one step behind, shared cores", even("fixed", 1, 1, 4), rates(3, 1, 2), 16, 0, 1 - 7.0/16, "[0 0 1 2]"},
		{"newest version", even("trainer_driven", 1, 0, 4), rates(1, 2, 1), 9, 0, 1 - 8.0/9, "[0 0 0 1]"},
	} {
		r, err := Run(c.setting, c.rates)
		if err != nil {
			t.Fatal(err)
		}
		timely := near(r.Seconds, c.seconds) && near(r.ExplorerIdle, c.explorer) && near(r.TrainerIdle, c.train)
		if !timely || fmt.Sprint(r.Versions) != c.versions {
			t.Errorf("%s: %v s, idle %.4f and %.4f, versions %v; want %v s, %.4f, %.4f, %s", c.name,
				r.Seconds, r.ExplorerIdle, r.TrainerIdle, r.Versions, c.seconds, c.explorer, c.train, c.versions)
		}
		if !near(r.StepsPerHour, 4*3600/c.seconds) {
			t.Errorf("%s: %v steps an hour", c.name, r.StepsPerHour)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// Two slots for the four rollouts of a step, all of the same length: the second half begins when
// the first half ends, with the version of that time.
func TestVersionsInTheMiddleOfAStep(t *testing.T) {
	s := even("fully_async", 1, 0, 2)
	s.InFlight = 2
	r, err := Run(s, rates(4, 1, 1)) // the second half of step 2 begins at 6 s; version 1 is there from 5 s on
	if err != nil {
		t.Fatal(err)
	}
	want := Staleness{Mean: 1.25, P50: 1, P95: 2, Max: 2, Rollouts: map[int64]int{1: 6, 2: 2}}
	if !reflect.DeepEqual(r.Staleness, want) {
		t.Errorf("staleness %+v, want %+v", r.Staleness, want)
	}
}

// A step has four rollouts of 1 s, and there are three slots. One step at a time takes 2 s. With
// two steps in flight the rollouts run at these seconds:
//
//	step 2 begins at 1 s, when all rollouts of step 1 have begun:  1–2, 1–2, 2–3, 2–3
//	step 3 begins at 2 s:                                          2–3, 3–4, 3–4, 3–4
//	step 4 begins at 3 s, when step 2 is delivered:                4–5, 4–5, 4–5, 5–6
func TestStepsInFlight(t *testing.T) {
	for inFlight, want := range map[int]struct {
		seconds  float64
		versions string
	}{
		1: {9, "[0 0 1 2]"},
		2: {7, "[0 0 0 1]"}, // step 4 begins at 3 s with version 1
	} {
		s := even("fully_async", 1, 0, 4)
		s.InFlight, s.StepsInFlight = 3, inFlight
		r, err := Run(s, rates(2, 1, 1))
		if err != nil {
			t.Fatal(err)
		}
		if !near(r.Seconds, want.seconds) || !near(r.ExploreSeconds, 2) || !near(r.ExplorerIdle, 0) || fmt.Sprint(r.Versions) != want.versions {
			t.Errorf("%d in flight: %v s, steps of %v s, idle %v, versions %v; want %v s, 2 s, 0, %s",
				inFlight, r.Seconds, r.ExploreSeconds, r.ExplorerIdle, r.Versions, want.seconds, want.versions)
		}
	}
}

// A fast explorer fills the queue and then waits for room.
func TestFullQueue(t *testing.T) {
	s := even("trainer_driven", 1, 0, 20)
	s.Capacity = 8
	r, err := Run(s, rates(1, 10, 1))
	if err != nil {
		t.Fatal(err)
	}
	if r.BufferMax != 8 || r.BufferMean < 6 || r.TrainerIdle > 0.01 || r.ExplorerIdle < 0.8 {
		t.Errorf("%+v", r)
	}
}

// With a pace that fits staleness_control no style drops a rollout or exceeds the bound. Style
// fixed with a longer interval drops rollouts.
func TestStalenessBound(t *testing.T) {
	for _, style := range []string{"fixed", "explorer_driven", "trainer_driven", "fully_async"} {
		for _, fast := range []float64{0.2, 1, 5} {
			s := even(style, 3, 0, 30)
			s.Strategy = &sample.StalenessControl{MaxStaleness: 3}
			if style != "fixed" {
				s.Pace.MaxStaleness = 3
			}
			if style == "fully_async" {
				s.StepsInFlight = 3
			}
			r, err := Run(s, Rates{Explore: fast, Train: 1, Slowdown: 1.5, Lengths: Lengths{Mean: 10, Spread: 1, Max: 40}})
			if err != nil {
				t.Fatal(err)
			}
			if r.Dropped != 0 || r.Staleness.Max > 3 || len(r.Batches) != 30 {
				t.Errorf("%s: %d dropped, staleness %+v, %d steps", style, r.Dropped, r.Staleness, len(r.Batches))
			}
		}
	}
	s := even("fixed", 4, 0, 8)
	s.Strategy = &sample.StalenessControl{MaxStaleness: 3}
	if r, err := Run(s, rates(1, 1, 1)); err != nil || r.Dropped != 2*4 {
		t.Errorf("%+v, %v; want the last step of each interval dropped", r, err)
	}
}

// Alone recovers the rates from the step times of a run in which both sides slow each other down.
func TestRatesAlone(t *testing.T) {
	s, want := even("fixed", 1, 1, 40), rates(3, 2, 1.7)
	r, err := Run(s, want)
	if err != nil {
		t.Fatal(err)
	}
	measured := want
	measured.Explore, measured.Train = r.ExploreSeconds, r.TrainSeconds
	got, err := Alone(s, measured)
	if err != nil || math.Abs(got.Explore-3) > 0.03 || math.Abs(got.Train-2) > 0.03 {
		t.Errorf("%+v, %v; want 3 s and 2 s; measured %v and %v", got, err, measured.Explore, measured.Train)
	}
	long := even("fully_async", 1, 0, 200)
	long.StepsInFlight, want.Lengths.Spread = 2, 1
	if r, err = Run(long, want); err != nil {
		t.Fatal(err)
	}
	measured = want
	measured.Explore, measured.Train = r.ExploreSeconds, r.TrainSeconds
	got, err = Alone(long, measured)
	if err != nil || math.Abs(got.Explore-3) > 0.03 || math.Abs(got.Train-2) > 0.03 || measured.Explore < 3.1 {
		t.Errorf("with two steps in flight %+v, %v; want 3 s and 2 s; measured %v and %v", got, err, measured.Explore, measured.Train)
	}
	again, err := Run(long, want)
	if err != nil || !reflect.DeepEqual(r, again) {
		t.Errorf("a second run differs: %v", err)
	}
}

func TestLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	l := Lengths{Mean: 200, Spread: 0.7}
	sum, logs, squares, largest := 0.0, 0.0, 0.0, 0.0
	const batches, n = 4000, 16
	for range batches {
		most := 0.0
		for range n {
			x := l.draw(rng)
			most, sum, logs, squares = max(most, x), sum+x, logs+math.Log(x), squares+math.Log(x)*math.Log(x)
		}
		largest += most / batches
	}
	const all = batches * n
	if mean, spread := sum/all, math.Sqrt(squares/all-logs/all*logs/all); math.Abs(mean-200) > 3 || math.Abs(spread-0.7) > 0.01 {
		t.Errorf("mean %v, spread %v; want 200, 0.7", mean, spread)
	}
	if got := Spread(200, largest, n); math.Abs(got-0.7) > 0.02 {
		t.Errorf("the spread from the mean and the largest length is %v, want about 0.7", got)
	}
	if Spread(5, 5, 8) != 0 || Spread(5, 9, 1) != 0 || Spread(5, math.Inf(1), 8) <= 1 {
		t.Error("want spread 0 for batches without one, and a bounded spread for an infinite length")
	}
}

func TestBadRates(t *testing.T) {
	for _, r := range []Rates{
		rates(0, 1, 1), rates(1, math.NaN(), 1), rates(1, 1, 0.5), rates(math.Inf(1), 1, 1), {Explore: 1, Train: 1, Slowdown: 1},
		{Explore: 1, Train: 1, Slowdown: 1, Sync: -1, Lengths: Lengths{Mean: 1}},
	} {
		if _, err := Run(even("fixed", 1, 0, 2), r); err == nil {
			t.Errorf("Run accepted %+v", r)
		}
	}
	r := rates(-1, 1, 1)
	if err := r.Validate(); err == nil || err.Error() != "rollout seconds: -1 is out of range, want a finite number above 0" {
		t.Error(err)
	}
}

// n explorers that share a step need 1/n of the time, with any number of slots.
func TestExplorersShareAStep(t *testing.T) {
	for _, inFlight := range []int{1, 2, 4, 100} {
		for n, seconds := range map[int]float64{0: 8, 1: 8, 2: 4, 4: 2} {
			s := even("fixed", 1, 0, 3)
			s.InFlight, s.Explorers = inFlight, n
			r, err := Run(s, rates(8, 1, 1))
			if err != nil {
				t.Fatal(err)
			}
			if !near(r.ExploreSeconds, seconds) || !near(r.RolloutsPerHour, 12*3600/r.Seconds) {
				t.Errorf("%d explorers with %d concurrent rollouts each: a step takes %v s, want %v; %v rollouts per hour",
					n, inFlight, r.ExploreSeconds, seconds, r.RolloutsPerHour)
			}
		}
	}
}
