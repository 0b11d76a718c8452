package advantage

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// valued returns a rollout with the critic's values at its trained tokens. mask has an x at each of
// these.
func valued(mask string, reward float64, values ...float32) *trinity.Experience {
	e := &trinity.Experience{Tokens: make([]int32, len(mask)), Mask: make([]bool, len(mask)),
		StepStreams: trinity.StepStreams{Values: make([]float32, len(mask))}, Reward: trinity.Reward{Value: reward, Valid: true}}
	for t, m := range mask {
		if e.Mask[t] = m == 'x'; e.Mask[t] {
			e.Values[t], values = values[0], values[1:]
		}
	}
	return e
}

// estimate runs an advantage_fn over one group.
func estimate(t *testing.T, name string, a map[string]any, g ...*trinity.Experience) trinity.Metrics {
	t.Helper()
	fn, err := registry.Advantages.Build(name, a)
	if err != nil {
		t.Fatal(err)
	}
	kept, m, err := fn.Advantages(t.Context(), []trinity.Group{g})
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != 1 || len(kept[0]) != len(g) {
		t.Fatalf("kept %v", kept)
	}
	return m
}

// The table has the advantages and returns of one sequence. For ppo it has only the returns,
// because ppo whitens the advantages.
func TestCriticEstimatesEqualValuesByHand(t *testing.T) {
	type args = map[string]any
	for _, c := range []struct {
		name, fn   string
		args       args
		mask       string
		reward     float64
		values     []float32
		returns    []float64
		advantages []float64 // nil for ppo
	}{
		{"λ 1, γ 1: the return is the reward", "ppo", nil, ".xxx", 2, []float32{1, 3, 5}, []float64{0, 2, 2, 2}, nil},
		// δ = 2−5 = −3 at the end, 5−3 = 2, 3−1 = 2: A = −3, 2−3, 2−1
		{"λ 0: one token ahead", "ppo", args{"lam": 0}, ".xxx", 2, []float32{1, 3, 5}, []float64{0, 3, 5, 2}, nil},
		// δ: −3, ½·5−3 = −½, ½·3−1 = ½; A: −3, −½−¼·3 = −1¼, ½−¼·1¼ = 3/16
		{"γ ½, λ ½", "ppo", args{"gamma": 0.5, "lam": 0.5}, ".xxx", 2, []float32{1, 3, 5}, []float64{0, 1 + 3.0/16, 3 - 1.25, 2}, nil},
		{"an environment's tokens are passed over", "ppo", args{"gamma": 0.5, "lam": 0.5}, "..x...xx..", 2, []float32{1, 3, 5},
			[]float64{0, 0, 1 + 3.0/16, 0, 0, 0, 3 - 1.25, 2, 0, 0}, nil},
		{"to the end", "a2c", args{"gamma": 0.5}, ".xxx", 2, []float32{1, 3, 5}, []float64{0, 0.5, 1, 2}, []float64{0, -0.5, -2, -3}},
		{"one token", "a2c", args{"gamma": 0.5, "n_steps": 1}, ".xxx", 2, []float32{1, 3, 5}, []float64{0, 1.5, 2.5, 2},
			[]float64{0, 0.5, -0.5, -3}},
		{"two tokens, over an environment's", "a2c", args{"gamma": 0.5, "n_steps": 2}, ".x.xx", 2, []float32{1, 3, 5},
			[]float64{0, 1.25, 0, 1, 2}, []float64{0, 0.25, 0, -2, -3}},
		{"λ", "a2c", args{"gamma": 0.5, "lam": 0.5}, ".xxx", 2, []float32{1, 3, 5}, []float64{0, 1 + 3.0/16, 1.75, 2},
			[]float64{0, 3.0 / 16, -1.25, -3}},
		{"a single token", "a2c", nil, ".x", 2, []float32{0.5}, []float64{0, 2}, []float64{0, 1.5}},
		{"nothing to train", "a2c", nil, "...", 2, nil, []float64{0, 0, 0}, []float64{0, 0, 0}},
	} {
		e := valued(c.mask, c.reward, c.values...)
		estimate(t, c.fn, c.args, e)
		if !near(e.Returns, c.returns, 1e-6) {
			t.Errorf("%s %s: returns %v, want %v", c.fn, c.name, e.Returns, c.returns)
		}
		if c.advantages != nil && !near(e.Advantages, c.advantages, 1e-6) {
			t.Errorf("%s %s: advantages %v, want %v", c.fn, c.name, e.Advantages, c.advantages)
		}
	}
}

// Before whitening, A is −1, 1 and 3 over the two sequences: mean 1, standard deviation 2.
func TestPPOWhitensOverTheBatch(t *testing.T) {
	a, b := valued(".xx.", 1, 2, 0), valued(".x", 4, 1)
	estimate(t, "ppo", nil, a, b)
	if !near(a.Advantages, []float64{0, -1, 0, 0}, 1e-6) || !near(b.Advantages, []float64{0, 1}, 1e-6) {
		t.Errorf("advantages %v, %v", a.Advantages, b.Advantages)
	}
}

// Equal advantages give no direction, and no error.
func TestPPOWithoutVarianceGivesZeros(t *testing.T) {
	one, none := valued(".x", 7, 1), valued("..", 7)
	estimate(t, "ppo", nil, one)
	estimate(t, "ppo", nil, none)
	same, too := valued(".x", 7, 1), valued(".x", 7, 1)
	estimate(t, "ppo", nil, same, too)
	for _, e := range []*trinity.Experience{one, none, same, too} {
		for _, a := range e.Advantages {
			if a != 0 {
				t.Errorf("advantages %v", e.Advantages)
			}
		}
	}
	if !near(one.Returns, []float64{0, 7}, 0) {
		t.Errorf("returns %v", one.Returns)
	}
}

// Turns that are separate experiences are separate episodes: each has its own reward, and nothing
// of a later one.
func TestTurnsAreEpisodes(t *testing.T) {
	type args = map[string]any
	turns := []*trinity.Experience{valued(".xx", 0, 1, 2), valued("..xx", 1, 3, 4), valued("...x", 5, 6)}
	for i, e := range turns {
		e.ID = trinity.ExperienceID{Step: 1, Task: "t", Run: 2, Turn: i}
	}
	estimate(t, "a2c", args{"gamma": 0.5}, turns...)
	for i, want := range [][]float64{{0, 0, 0}, {0, 0, 0.5, 1}, {0, 0, 0, 5}} {
		if !near(turns[i].Returns, want, 1e-6) {
			t.Errorf("returns of turn %d are %v, want %v", i, turns[i].Returns, want)
		}
	}
}

// Demonstrations and rollouts with invalid rewards teach nothing.
func TestCriticEstimatesIgnoreDemonstrations(t *testing.T) {
	for _, fn := range []string{"ppo", "a2c"} {
		failed, shown, fine := valued(".x", 0, 1), valued(".x", 0, 1), valued(".xx", 1, 0, 0)
		failed.Reward = trinity.InvalidReward("timeout")
		shown.IsExpert = true
		a, err := registry.Advantages.Build(fn)
		if err != nil {
			t.Fatal(err)
		}
		kept, m, err := a.Advantages(t.Context(), []trinity.Group{{failed}, {shown, fine}})
		if err != nil || len(kept) != 1 || !slices.Equal(kept[0], trinity.Group{shown, fine}) || m["invalid_count"] != 1 {
			t.Errorf("%s: kept %v, %v, %v", fn, kept, m, err)
		}
		if failed.Advantages != nil || shown.Returns != nil || shown.Advantages[1] != 0 || fine.Returns == nil {
			t.Errorf("%s: %v, %v, %v", fn, failed, shown, fine)
		}
	}
}

func TestCriticEstimatesReportBadInput(t *testing.T) {
	type args = map[string]any
	for _, c := range []struct {
		fn   string
		args args
		want string
	}{
		{"ppo", args{"gamma": 1.1}, "gamma: must be at least 0 and at most 1"},
		{"ppo", args{"lam": -0.1}, "lam: must be at least 0 and at most 1"},
		{"ppo", args{"lam": math.NaN()}, "lam: must be at least 0 and at most 1"},
		{"a2c", args{"gamma": -1}, "gamma: must be at least 0 and at most 1"}, {"a2c", args{"lam": 2}, "lam: must be at least 0 and at most 1"},
		{"a2c", args{"n_steps": 0}, "n_steps: must be at least 1"},
		{"a2c", args{"n_steps": 2, "lam": 0.5}, "has no effect beside lam"}, {"ppo", args{"lamb": 0.5}, `did you mean "lam"`},
	} {
		if _, err := registry.Advantages.Build(c.fn, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: error %v, want %q", c.fn, c.args, err, c.want)
		}
	}
	without, broken, endless := valued(".x", 1, 0), valued(".x", 1, float32(math.NaN())), valued(".x", math.Inf(1), 0)
	without.Values = nil
	for want, e := range map[string]*trinity.Experience{"has 0 values for 2 tokens": without,
		"values of token 1 is NaN": broken, "its reward is +Inf": endless} {
		for _, fn := range []string{"ppo", "a2c"} {
			a, err := registry.Advantages.Build(fn)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := a.Advantages(t.Context(), []trinity.Group{{e}}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", fn, err, want)
			}
		}
	}
}

// The penalty of each token reduces the token's reward.
func TestCriticEstimatesSubtractTheKLPenalty(t *testing.T) {
	for _, fn := range []string{"ppo", "a2c"} {
		a, err := registry.Advantages.Build(fn)
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		a.Needs().PenalizeKL(func(_ context.Context, batch []*trinity.Experience) ([][]float64, trinity.Metrics, error) {
			if calls++; calls > 1 {
				return nil, nil, errors.New("no reference")
			}
			return [][]float64{{0, 0.5, 0.25}}, trinity.Metrics{"kl": 0.75, "kl_coef": 0.1}, nil
		})
		e := valued(".xx", 1, 0, 0)
		_, m, err := a.Advantages(t.Context(), []trinity.Group{{e}})
		if err != nil || calls != 1 || m["kl"] != 0.75 || m["kl_coef"] != 0.1 || m["rewards/mean"] != 0.25 ||
			!near(e.Returns, []float64{0, 0.25, 0.75}, 1e-6) {
			t.Errorf("%s: %v, %d calls, metrics %v, returns %v", fn, err, calls, m, e.Returns)
		}
		if _, _, err := a.Advantages(t.Context(), []trinity.Group{{e}}); err == nil || !strings.Contains(err.Error(), "no reference") {
			t.Errorf("%s: %v", fn, err)
		}
	}
}

func TestCriticEstimatesEqualPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/critic.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Groups [][]struct {
			Mask    []bool
			Values  []float32
			Penalty []float64
			Reward  float64
			Valid   bool
		}
		Cases []struct {
			Name                string
			Args                map[string]any
			Penalized           bool
			Advantages, Returns [][]float64 // of the rollouts with a valid reward
		}
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	for _, c := range recorded.Cases {
		var groups []trinity.Group
		penalty := map[*trinity.Experience][]float64{}
		for _, rg := range recorded.Groups {
			var g trinity.Group
			for _, r := range rg {
				e := &trinity.Experience{Tokens: make([]int32, len(r.Mask)), Mask: r.Mask, StepStreams: trinity.StepStreams{Values: r.Values},
					Reward: trinity.Reward{Value: r.Reward, Valid: r.Valid}}
				g, penalty[e] = append(g, e), r.Penalty
			}
			groups = append(groups, g)
		}
		a, err := registry.Advantages.Build(c.Name, c.Args)
		if err != nil {
			t.Fatal(err)
		}
		if c.Penalized {
			a.Needs().PenalizeKL(func(_ context.Context, batch []*trinity.Experience) (out [][]float64, m trinity.Metrics, err error) {
				for _, e := range batch {
					out = append(out, penalty[e])
				}
				return out, nil, nil
			})
		}
		kept, _, err := a.Advantages(t.Context(), groups)
		if err != nil {
			t.Fatal(err)
		}
		batch := slices.Concat(kept...)
		if len(batch) != len(c.Advantages) {
			t.Fatalf("%s %v: %d rollouts are left, want %d", c.Name, c.Args, len(batch), len(c.Advantages))
		}
		for i, e := range batch {
			if !near(e.Advantages, c.Advantages[i], 1e-6) || !near(e.Returns, c.Returns[i], 1e-6) {
				t.Errorf("%s %v, rollout %d: %v, %v; want %v, %v", c.Name, c.Args, i, e.Advantages, e.Returns, c.Advantages[i], c.Returns[i])
			}
		}
	}
}
