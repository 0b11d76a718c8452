package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// The interval over rows agrees with McNemar's exact test, whose probabilities are those of scipy.stats.binomtest(won, won+lost),
// version 1.17, except near the bound of 5 %.
func TestRowsTellChance(t *testing.T) {
	for _, c := range []struct {
		won, lost, same int
		p               float64
	}{
		{0, 0, 3, 1}, {3, 0, 0, 0.25}, {4, 0, 0, 0.125}, {6, 0, 0, 0.03125}, {1, 0, 199, 1}, {3, 0, 197, 0.25}, {7, 0, 193, 0.015625},
		{10, 2, 0, 0.03857421875}, {8, 2, 90, 0.109375}, {12, 2, 186, 0.012939453125}, {20, 15, 165, 0.49956},
		{30, 12, 158, 0.0079159}, {60, 40, 900, 0.05688793364098078}, {65, 35, 900, 0.003517641554}, {100, 90, 10, 0.5137},
	} {
		var apart []float64
		for range c.won {
			apart = append(apart, 1)
		}
		for range c.lost {
			apart = append(apart, -1)
		}
		apart = append(apart, make([]float64, c.same)...)
		for _, sign := range []float64{1, -1} {
			d := differing(overRows(apart, 1), overTheRows)
			if want := sign * float64(c.won-c.lost) / float64(len(apart)); math.Abs(d.Mean-want) > 1e-12 {
				t.Errorf("%+v: mean %g, want %g", c, d.Mean, want)
			}
			if isChance := d.Tells == withinChance; isChance != (c.p > 0.05) && (c.p < 0.04 || c.p > 0.06) {
				t.Errorf("%+v: %g to %g", c, *d.Low, *d.High)
			}
			for i := range apart {
				apart[i] = -apart[i]
			}
		}
	}
}

// Of many pairs of evaluations, 95 % or more of the intervals hold the true difference, which small sets of rows often miss.
func TestRowsCover(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		rows      int
		won, lost float64
	}{{8, .3, .1}, {16, .05, .05}, {50, .1, .02}, {200, .3, .25}, {200, .05, .01}} {
		const trials = 2000
		held := 0
		for range trials {
			apart := make([]float64, c.rows)
			for i := range apart {
				switch u := rng.Float64(); {
				case u < c.won:
					apart[i] = 1
				case u < c.won+c.lost:
					apart[i] = -1
				}
			}
			if v, truth := overRows(apart, 1), c.won-c.lost; *v.Low <= truth && truth <= *v.High {
				held++
			}
		}
		if share := float64(held) / trials; share < .94 {
			t.Errorf("%+v: %.3f of the intervals hold the difference", c, share)
		}
	}
}

// answering writes a run that was evaluated at some steps, and what it answered: the first so many rows are right.
func answering(t *testing.T, root, name, settings string, rows int, right map[int]int) string {
	t.Helper()
	dir := filepath.Join(root, name)
	w, err := trace.New(trace.Options{Dir: filepath.Join(dir, rundir.Traces), Say: func(line string) { t.Error(line) }})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	steps := slices.Sorted(func(yield func(int) bool) {
		for step := range right {
			if !yield(step) {
				return
			}
		}
	})
	for _, step := range steps {
		var all []trace.Evaluated
		for row := range rows {
			repeat, reward := int64(0), 0.0
			if row < right[step] {
				reward = 1
			}
			all = append(all, trace.Evaluated{
				Taskset: "held_out", Row: int64(row), Run: &repeat, Prompt: fmt.Sprint("row ", row), Truth: "1", Reward: &reward, Step: int64(step),
				Parts: trace.JSON(fmt.Sprintf(`{"accuracy":%g}`, reward)),
			})
		}
		if rows > 0 {
			w.Evaluation(trace.Evaluation{Who: trace.OfRun, Step: int64(step), Rows: all})
		}
		value := float64(right[step]) / float64(max(rows, 100))
		lines = append(lines, fmt.Sprintf(`{"step":%d,"role":"explorer","time":"2026-01-02T15:05:%02d.000Z","metrics":`+
			`{"eval/held_out/accuracy/mean@1":%g,"eval/model_version":%d,"rollout/reward/mean":%g}}`, step, step, value, step, value))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	writeStage(t, filepath.Join(dir, "monitor"), append(lines, "")...)
	settings += "model: {model_path: models/small}\n"
	if err := os.WriteFile(filepath.Join(dir, "monitor", rundir.SettingsFile), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

const heldOut = "eval/held_out/accuracy/mean@1"

// Where another run is better on other rows, the verdict says so; not where it is better in another quantity.
func TestOtherRowsDisagree(t *testing.T) {
	root := t.TempDir()
	var dirs []string
	for i, values := range [][]string{{"0.5", "0.7", "0.6"}, {"0.5", "0.6", "0.8"}} {
		dir := filepath.Join(root, string(rune('a'+i)))
		var lines []string
		for k, step := range []int{0, 4} {
			lines = append(lines, fmt.Sprintf(`{"step":%d,"role":"explorer","time":"2026-01-02T15:05:0%d.000Z","metrics":{"eval/model_version":%d,`+
				`"eval/rows/accuracy/mean@1":%s,"eval/greedy/accuracy/mean@4":%s,"eval/greedy/turns/mean@4":%d}}`,
				step, step, step, values[k], values[2*k], i))
		}
		writeStage(t, filepath.Join(dir, "monitor"), append(lines, "")...)
		if err := os.WriteFile(filepath.Join(dir, "monitor", rundir.SettingsFile), []byte(fmt.Sprintf("seed: %d\n", i)), 0o644); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	for metric, want := range map[string]string{
		"eval/rows/accuracy/mean@1":   "By greedy/accuracy another run is best: b, 0.8 at step 4; a has 0.6 at step 4.",
		"eval/greedy/accuracy/mean@4": "By rows/accuracy another run is best: a, 0.7 at step 4; b has 0.6 at step 4.",
	} {
		c, err := Asked{Metric: metric}.Compare(dirs...)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.verdict(); !slices.Contains(got, want) || len(c.Others) != 1 {
			t.Errorf("the verdict is\n%s\nwant in it\n%s", strings.Join(got, "\n"), want)
		}
	}
}

// Single runs stand at the best of their steps, with the difference over the rows that both answered.
func TestStandings(t *testing.T) {
	root := t.TempDir()
	a := answering(t, root, "a", "seed: 1\n", 100, map[int]int{0: 30, 4: 80, 8: 50})
	b := answering(t, root, "b", "seed: 2\n", 100, map[int]int{0: 30, 4: 70, 8: 78})
	d := answering(t, root, "d", "seed: 3\nalgorithm: {optimizer: {lr: 0.5}}\n", 100, map[int]int{0: 30, 4: 40, 8: 79})
	if err := durable.MkdirAll(rundir.Checkpoint(a, 4), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := Asked{Metric: heldOut}.Compare(a, b, d)
	if err != nil || len(c.Best) != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	var order []string
	for _, s := range c.Best {
		order = append(order, fmt.Sprint(s.Run, " ", s.Best, " ", s.Step))
	}
	if got := strings.Join(order, ", "); got != "a 0.8 4, d 0.79 8, b 0.78 8" {
		t.Errorf("standings %s", got)
	}
	if g := c.Best[0].Gain; g == nil || math.Abs(g.Mean-.5) > 1e-9 || g.N != 100 || g.Over != "rows" || g.Tells != beyondChance ||
		c.Best[0].More != nil {
		t.Errorf("the best run gained %+v", g)
	}
	if m := c.Best[1].More; m == nil || math.Abs(m.Mean+.01) > 1e-9 || m.Tells != withinChance {
		t.Errorf("the next run is %+v away", m)
	}
	if got := strings.Join(c.verdict(), "\n"); !strings.HasPrefix(got, "Best single run at any step: ") ||
		!strings.Contains(got, " 0.8 at step 4, was 0.3 at the start (+0.5 ± 0.11 over 100 rows).\n") ||
		!strings.Contains(got, "has 0.79 at step 8: -0.01 ± 0.028 over 100 rows, within chance.") {
		t.Errorf("the verdict is\n%s", got)
	}
	if c.Groups[0].Name != "0.5" && len(c.Groups[0].Runs) != 1 {
		t.Errorf("by the final value the first is %+v", c.Groups[0])
	}
	// at best and alone
	c, err = Asked{Metric: heldOut, AtBest: true, Alone: true}.Compare(a, b, d)
	if err != nil || len(c.Groups) != 3 || c.Groups[0].Runs[0].Name != "a" {
		t.Fatalf("%+v, %v", c, err)
	}
	v := c.Metrics[0].Values
	if v[0].Best.Mean != .8 || v[0].Mean != .5 || v[1].More == nil || math.Abs(v[1].More.Mean+.01) > 1e-9 || v[1].More.Over != "rows" {
		t.Errorf("%+v %+v", v[0], v[1].More)
	}
	if r := c.Metrics[len(c.Metrics)-1]; r.Name != "rollout/reward/mean" || r.Values[0].Best != nil || r.Values[1].More.High != nil {
		t.Errorf("what is no evaluation has %+v", r.Values[1])
	}
}

// Two seeds that happen to agree are not more certain than the rows that they answered, and without rows tell nothing.
func TestSeedsThatAgree(t *testing.T) {
	root := t.TempDir()
	for _, rows := range []int{100, 0} {
		var dirs []string
		for i, settings := range []string{"", "mode: b\n"} {
			for seed := range 2 {
				dirs = append(dirs, answering(t, root, fmt.Sprint(rows, "_", i, "_seed", seed), fmt.Sprintf("seed: %d\n", seed)+settings, rows,
					map[int]int{0: 30, 4: 80 - 3*i}))
			}
		}
		c, err := Compare(heldOut, dirs...)
		if err != nil || len(c.Groups) != 2 {
			t.Fatalf("%+v, %v", c, err)
		}
		more := c.Metrics[0].Values[1].More
		if half, tells := *more.High-more.Mean, map[int]string{0: "", 100: withinChance}[rows]; more.N != 2 || more.Over != overTheSeeds ||
			math.Abs(more.Mean+.03) > 1e-9 || more.Tells != tells || (half > .03) != (rows > 0) {
			t.Errorf("%d rows: %+v, ± %g", rows, more, half)
		}
	}
}

// Without answers to the same rows nobody can tell one run of a seed from another.
func TestStandingsWithoutRows(t *testing.T) {
	root := t.TempDir()
	a := answering(t, root, "a", "seed: 1\n", 0, map[int]int{0: 30, 4: 80})
	b := answering(t, root, "b", "seed: 1\nmode: b\n", 0, map[int]int{0: 30, 4: 70})
	c, err := Compare(heldOut, a, b)
	if err != nil || c.Best[1].More != nil || c.Metrics[0].Values[1].More.High != nil || c.Metrics[0].Values[1].More.Over != "seeds" {
		t.Fatalf("%+v, %v", c, err)
	}
	if got := strings.Join(c.verdict(), "\n"); !strings.Contains(got, "so nobody can tell this from chance") {
		t.Errorf("the verdict is\n%s", got)
	}
	// rows that ask something else, or whose mean is another one, are none
	other := answering(t, root, "other", "seed: 1\nmode: c\n", 100, map[int]int{0: 30, 4: 70})
	trace := filepath.Join(a, rundir.Traces, "evaluated")
	if err := durable.MkdirAll(trace, 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(other, rundir.Traces, "evaluated", "step-4.parquet"))
	if err == nil {
		err = os.WriteFile(filepath.Join(trace, "step-4.parquet"), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if c, err = Compare(heldOut, a, other); err != nil || c.Best[1].More != nil {
		t.Errorf("%+v, %v", c.Best, err)
	}
	if err := os.WriteFile(filepath.Join(trace, "step-4.parquet"), []byte("PAR1"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err = Compare(heldOut, a, other)
	if err != nil || !strings.Contains(strings.Join(c.Notes, "\n"), "cannot be read, so without a difference over rows") {
		t.Errorf("%q, %v", c.Notes, err)
	}
}

// A step that is worse than the start is not called the best of anything.
func TestNoRunIsBetter(t *testing.T) {
	root := t.TempDir()
	a := answering(t, root, "a", "seed: 1\n", 100, map[int]int{0: 77, 4: 49, 8: 20})
	b := answering(t, root, "b", "seed: 2\n", 100, map[int]int{0: 77, 4: 77, 8: 10})
	c, err := Compare("", a)
	if err != nil || c.Best[0].IsBetter() {
		t.Fatalf("%+v, %v", c.Best, err)
	}
	const want = "No run is better than the model it began with (held_out/accuracy 0.77; model models/small); " +
		"the best checkpoint has 0.49: a, step 4."
	if got := c.verdict()[0]; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if c, err = Compare("", a, b); err != nil || c.isBetter() {
		t.Errorf("what is as good as the start is no gain: %+v, %v", c.Best, err)
	}
	const sentence = "No run is better than the model it began with (held_out/accuracy 0.77"
	worse := answering(t, root, "worse", "seed: 1\nmode: b\n", 100, map[int]int{0: 77, 4: 50})
	if page := pageOf(t, a, worse); !strings.Contains(page, sentence) {
		t.Errorf("the page does not say that %s", sentence)
	}
	late := answering(t, root, "late", "seed: 2\n", 100, map[int]int{4: 49, 8: 20}) // the start was not evaluated
	if c, err = Compare("", late); err != nil || !c.isBetter() || strings.Contains(c.verdict()[0], "at the start") {
		t.Errorf("%q, %v", c.verdict(), err)
	}
}
