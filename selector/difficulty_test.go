package selector

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// between returns a dataset with the pass rates of a weak and a strong model.
func between(weak, strong []float64) dataset {
	rows := make(dataset, len(weak))
	for i := range rows {
		rows[i] = map[string]any{"weak": weak[i], "strong": strong[i]}
	}
	return rows
}

func bots(t *testing.T, data dataset, kwargs map[string]any) *difficulty {
	t.Helper()
	args := map[string]any{"seed": 1, "feature_keys": []string{"weak", "strong"}}
	maps.Copy(args, kwargs)
	s, err := Selectors.Build("difficulty_based", args)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(data); err != nil {
		t.Fatal(err)
	}
	return s.(*difficulty)
}

// testdata/record_bots.py gave the estimates after each step, the rows for tau 0 and the
// probabilities for other temperatures.
func TestDifficultyEqualsTheRecordedTable(t *testing.T) {
	var table struct {
		Weak, Strong []float64
		Cases        []struct {
			Name   string
			Kwargs map[string]any
			Steps  []struct {
				Rewards                  map[int]float64
				Alpha, Beta, Probability []float64
				Rho                      float64
				Best                     []int
			}
		}
	}
	text, err := os.ReadFile("testdata/bots.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	data := between(table.Weak, table.Strong)
	for _, c := range table.Cases {
		t.Run(c.Name, func(t *testing.T) {
			s := bots(t, data, c.Kwargs)
			for i, step := range c.Steps {
				s.Feedback(step.Rewards)
				for row := range step.Alpha {
					if a, b := s.alpha[row], s.beta[row]; !near(a, step.Alpha[row]) || !near(b, step.Beta[row]) {
						t.Errorf("step %d, row %d: Beta(%v, %v), want Beta(%v, %v)", i, row, a, b, step.Alpha[row], step.Beta[row])
					}
				}
				if !near(s.rho, step.Rho) {
					t.Errorf("step %d: rho %v, want %v", i, s.rho, step.Rho)
				}
				if s.Tau == 0 {
					if got := next(t, s, 5); !slices.Equal(got, step.Best) {
						t.Errorf("step %d: rows %v, want %v", i, got, step.Best)
					}
					continue
				}
				const draws = 4000
				first := make([]float64, len(data))
				for range draws {
					first[next(t, s, 3)[0]] += 1. / draws
				}
				for row, p := range step.Probability { // four standard deviations
					if math.Abs(first[row]-p) > 4*math.Sqrt(p*(1-p)/draws)+1e-3 {
						t.Errorf("step %d: row %d was drawn first in %v of batches, want %v", i, row, first[row], p)
					}
				}
			}
		})
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(b)) }

// While a policy improves from the weak model to the strong one, the chosen rows stay near the
// target pass rate. This also holds if only the observed rewards distinguish the rows.
func TestDifficultyFollowsTheTarget(t *testing.T) {
	const steps, batch, group = 60, 16, 16
	informative := func(i int) (weak, strong float64) { return float64(i%30) / 60, 0.4 + float64(i%30)/50 }
	for _, c := range []struct {
		name     string
		n        int // rows
		features func(i int) (weak, strong float64)
		kwargs   map[string]any
		within   float64 // largest distance from the target, as a share of the distance of random rows
	}{
		{"best", 300, informative, map[string]any{"tau": 0}, 0.5},
		{"drawn", 300, informative, map[string]any{"tau": 0.02}, 0.7},
		{"thompson", 300, informative, map[string]any{"tau": 0, "do_sample": true}, 0.7},
		{"no references", 90, func(int) (float64, float64) { return 0, 1 }, map[string]any{"tau": 0, "do_sample": true, "rho": 0}, 0.75},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := make(dataset, c.n)
			for i := range data {
				weak, strong := c.features(i)
				data[i] = map[string]any{"weak": weak, "strong": strong}
			}
			truth := func(row int, at float64) float64 {
				weak, strong := informative(row)
				return weak + at*(strong-weak)
			}
			c.kwargs["target_reward"] = 0.5
			s := bots(t, data, c.kwargs)
			rng := rand.New(rand.NewPCG(3, 3))
			chosen, uniform := 0., 0.
			for step := range steps {
				at := float64(step) / steps
				rewards := map[int]float64{}
				for _, row := range next(t, s, batch) {
					p, passed := truth(row, at), 0.
					for range group {
						if rng.Float64() < p {
							passed++
						}
					}
					if rewards[row] = passed / group; step >= 10 {
						chosen += math.Abs(p-0.5) / batch
					}
				}
				for row := range c.n {
					if step >= 10 {
						uniform += math.Abs(truth(row, at)-0.5) / float64(c.n)
					}
				}
				s.Feedback(rewards)
			}
			t.Logf("mean distance from the target: %.3f chosen, %.3f at random", chosen/(steps-10), uniform/(steps-10))
			if chosen > c.within*uniform {
				t.Errorf("distance from the target: chosen rows %v, random rows %v; want at most %v of it",
					chosen/(steps-10), uniform/(steps-10), c.within)
			}
		})
	}
}

func TestBetaDrawsHaveMeanAndVariance(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range [][2]float64{{1, 1}, {1, 20}, {5, 3}, {300, 100}} {
		a, b := c[0], c[1]
		p := passRates{alpha: []float64{a}, beta: []float64{b}}
		const draws = 20000
		sum, squares := 0., 0.
		for range draws {
			x := p.draw(rng, 0)
			sum, squares = sum+x, squares+x*x
		}
		mean, variance := sum/draws, squares/draws-sum/draws*sum/draws
		wantMean, wantVar := a/(a+b), a*b/((a+b)*(a+b)*(a+b+1))
		if math.Abs(mean-wantMean) > 4*math.Sqrt(wantVar/draws) || math.Abs(variance/wantVar-1) > 0.1 {
			t.Errorf("Beta(%v, %v): mean %v, variance %v; want %v, %v", a, b, mean, variance, wantMean, wantVar)
		}
	}
}

// Rewards outside [0, 1] leave finite, positive estimates.
func TestDifficultySurvivesOddRewards(t *testing.T) {
	s := bots(t, between([]float64{0, 0.5, 0.5}, []float64{1, 0.5, 1}), map[string]any{"adaptive_rho": true})
	for range 2000 {
		s.Feedback(map[int]float64{0: math.Inf(1), 1: math.Inf(-1), 2: math.NaN(), -1: 1, 7: 1})
	}
	for row := range 3 {
		if a, b := s.alpha[row], s.beta[row]; !(a >= 1 && b >= 1 && a < 1e6 && b < 1e6) {
			t.Errorf("row %d: Beta(%v, %v)", row, a, b)
		}
	}
}

func TestDifficultyChecksItsInput(t *testing.T) {
	two := []string{"weak", "strong"}
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"feature_keys": []string{"weak"}}, "want two"},
		{map[string]any{"feature_keys": []string{"weak", "middle"}}, `no "middle"`},
		{map[string]any{"feature_keys": []string{"weak", "score"}}, "in [0, 1]"},
		{map[string]any{"feature_keys": two, "m": 0}, "m: must be more than 0"},
		{map[string]any{"feature_keys": two, "lamb": 1.5}, "lamb: must be at least 0 and at most 1, got 1.5"},
		{map[string]any{"feature_keys": two, "rho": -0.5}, "rho: must be at least 0"},
		{map[string]any{"feature_keys": two, "target_reward": 2}, "target_reward: must be at least 0"},
		{map[string]any{"feature_keys": two, "tau": -1}, "tau: must be at least 0"},
		{map[string]any{"feature_keys": two, "lambda": 1}, "lamb"},
	} {
		s, err := Selectors.Build("difficulty_based", c.args)
		if err == nil {
			err = s.Start(dataset{{"weak": 0.1, "strong": 0.9, "score": 3.0}})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.args, err, c.want)
		}
	}
}

func TestRhoHalvesAtTheTolerance(t *testing.T) {
	for observed, want := range map[float64]float64{0.25: 0.4, 0.4375: 0.4, 0.5: 0.2, 0: 0.2, 1: 0.2} {
		p := newPassRates([][2]float64{{0.25, 0.25}}, 0.4) // for this row 0.25 is inferred at any capability
		if p.update(map[int]float64{0: observed}, 8, 0.1, true); p.rho != want {
			t.Errorf("observed %v: rho is %v, want %v", observed, p.rho, want)
		}
	}
}
