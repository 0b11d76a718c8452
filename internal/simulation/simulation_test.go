package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/trinity-go/trinity/algorithm/sample"
	"github.com/trinity-go/trinity/explorer"
	"github.com/trinity-go/trinity/weights"
)

// even has rollouts of one length, an explore step for each train step, and room.
func even(style string, interval, offset, steps int64) Setting {
	handover := map[string]weights.Handover{"explorer_driven": weights.WhenAsked, "trainer_driven": weights.WhenAsked, "fully_async": weights.AtOnce}
	return Setting{
		Pace:     explorer.Pace{Style: style, Interval: interval, Offset: offset, MaxStaleness: math.Inf(1), PerStep: 4, PerBatch: 4},
		Handover: handover[style], PublishInterval: interval, Capacity: 1000, Batch: 4, InFlight: 4, Steps: steps,
	}
}

func rates(explore, train, slowdown float64) Rates {
	return Rates{Explore: explore, Train: train, Slowdown: slowdown, Lengths: Lengths{Mean: 10}}
}

// Runs of four steps whose times are easily found by hand.
func TestTimesByHand(t *testing.T) {
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
		{"with publication, during which the explorer waits", even("fixed", 1, 0, 4), publishing, 20, 1 - 12.0/18, 1 - 8.0/20, "[0 1 2 3]"},
		{"every other step", even("fixed", 2, 0, 4), rates(1, 1, 1), 6, 1 - 4.0/5, 1 - 4.0/6, "[0 0 2 2]"},
		{"one step behind, cores apart", even("fixed", 1, 1, 4), rates(3, 1, 1), 13, 0, 1 - 4.0/13, "[0 0 1 2]"},
		{"one step behind, the trainer slower", even("fixed", 1, 1, 4), rates(1, 3, 1), 13, 1 - 4.0/8, 1 - 12.0/13, "[0 0 1 2]"},
		// 3 s alone, then 2 s for each second of training beside the second to the fourth step, of which 2 s are left: 3·(2 + 2) + 1 more.
		{"one step behind, cores shared", even("fixed", 1, 1, 4), rates(3, 1, 2), 16, 0, 1 - 7.0/16, "[0 0 1 2]"},
		{"the newest", even("trainer_driven", 1, 0, 4), rates(1, 2, 1), 9, 0, 1 - 8.0/9, "[0 0 0 1]"},
	} {
		r, err := Run(c.setting, c.rates)
		if err != nil {
			t.Fatal(err)
		}
		if !near(r.Seconds, c.seconds) || !near(r.ExplorerIdle, c.explorer) || !near(r.TrainerIdle, c.train) || fmt.Sprint(r.Versions) != c.versions {
			t.Errorf("%s: %v s, idle %.4f and %.4f, versions %v; want %v s, %.4f, %.4f, %s", c.name, r.Seconds, r.ExplorerIdle, r.TrainerIdle, r.Versions, c.seconds, c.explorer, c.train, c.versions)
		}
		if !near(r.StepsPerHour, 4*3600/c.seconds) {
			t.Errorf("%s: %v steps an hour", c.name, r.StepsPerHour)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// The rollouts of a step in two places, of lengths 10 each: the second half begins when the first ends, with the version of then.
func TestVersionsInTheMiddleOfAStep(t *testing.T) {
	s := even("fully_async", 1, 0, 2)
	s.InFlight = 2
	r, err := Run(s, rates(4, 1, 1)) // the second step's second half begins at 6 s, when version 1 is a second old
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(r.Staleness.Rollouts) != "map[1:6 2:2]" || r.Staleness.P50 != 1 || r.Staleness.P95 != 2 || r.Staleness.Max != 2 || r.Staleness.Mean != 1.25 {
		t.Errorf("staleness %+v", r.Staleness)
	}
}

// Rollouts of 1 s, four a step, in three places. One step after the other takes 2 s each. With two under way the second begins at 1 s, when all of the first have begun: 1–2,
// 1–2, 2–3, 2–3; the third at 2 s: 2–3 and three times 3–4; the fourth at 3 s, when the second is delivered: 4–5 three times and 5–6.
func TestStepsUnderWay(t *testing.T) {
	for underWay, want := range map[int]struct {
		seconds  float64
		versions string
	}{
		1: {9, "[0 0 1 2]"},
		2: {7, "[0 0 0 1]"}, // version 1 is there at 3 s, when the fourth takes its version
	} {
		s := even("fully_async", 1, 0, 4)
		s.InFlight, s.UnderWay = 3, underWay
		r, err := Run(s, rates(2, 1, 1))
		if err != nil {
			t.Fatal(err)
		}
		if !near(r.Seconds, want.seconds) || !near(r.ExploreSeconds, 2) || !near(r.ExplorerIdle, 0) || fmt.Sprint(r.Versions) != want.versions {
			t.Errorf("%d under way: %v s, steps of %v s, idle %v, versions %v; want %v s, 2 s, 0, %s", underWay, r.Seconds, r.ExploreSeconds, r.ExplorerIdle, r.Versions, want.seconds, want.versions)
		}
	}
}

// A fast explorer fills the queue, and waits for room.
func TestTheQueueIsFull(t *testing.T) {
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

// No style drops anything that staleness_control paces, and none exceeds it; fixed with too long an interval drops.
func TestStalenessIsKept(t *testing.T) {
	for _, style := range []string{"fixed", "explorer_driven", "trainer_driven", "fully_async"} {
		for _, fast := range []float64{0.2, 1, 5} {
			s := even(style, 3, 0, 30)
			s.Strategy = &sample.StalenessControl{MaxStaleness: 3}
			if style != "fixed" {
				s.Pace.MaxStaleness = 3
			}
			if style == "fully_async" {
				s.UnderWay = 3
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

// What was measured where both sides slowed each other down is what a simulation at the rates alone measures.
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
		t.Errorf("%+v, %v; want 3 s and 2 s, of %v and %v measured", got, err, measured.Explore, measured.Train)
	}
	long := even("fully_async", 1, 0, 200)
	long.UnderWay, want.Lengths.Spread = 2, 1
	if r, err = Run(long, want); err != nil {
		t.Fatal(err)
	}
	measured = want
	measured.Explore, measured.Train = r.ExploreSeconds, r.TrainSeconds
	got, err = Alone(long, measured)
	if err != nil || math.Abs(got.Explore-3) > 0.03 || math.Abs(got.Train-2) > 0.03 || measured.Explore < 3.1 {
		t.Errorf("with two steps under way %+v, %v; want 3 s and 2 s, of %v and %v measured", got, err, measured.Explore, measured.Train)
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
		t.Errorf("of the mean and the largest the spread is %v, want about 0.7", got)
	}
	if Spread(5, 5, 8) != 0 || Spread(5, 9, 1) != 0 || Spread(5, math.Inf(1), 8) <= 1 {
		t.Error("spreads of batches that say nothing")
	}
}

func TestBadRates(t *testing.T) {
	for _, r := range []Rates{rates(0, 1, 1), rates(1, math.NaN(), 1), rates(1, 1, 0.5), rates(math.Inf(1), 1, 1), {Explore: 1, Train: 1, Slowdown: 1}, {Explore: 1, Train: 1, Slowdown: 1, Sync: -1, Lengths: Lengths{Mean: 1}}} {
		if _, err := Run(even("fixed", 1, 0, 2), r); err == nil {
			t.Errorf("%+v was taken", r)
		}
	}
	r := rates(-1, 1, 1)
	if err := r.Validate(); err == nil || err.Error() != "rollout seconds: -1 is out of range, want a finite number above 0" {
		t.Error(err)
	}
}

// Explorers that share a step take as many times less for it, in places that all of them fill, whatever of them one alone uses.
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
				t.Errorf("%d explorers with %d rollouts at once each: a step takes %v s, want %v; %v rollouts an hour", n, inFlight, r.ExploreSeconds, seconds, r.RolloutsPerHour)
			}
		}
	}
}
