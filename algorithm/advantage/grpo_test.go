package advantage

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// rollout has one prompt token, two trained tokens with the mean log-probability lp, and one token
// of an environment.
func rollout(run int, reward trinity.Reward, lp float32) *trinity.Experience {
	return &trinity.Experience{
		ID: trinity.ExperienceID{Step: 1, Task: "t", Run: run}, Tokens: make([]int32, 4), Mask: []bool{false, true, true, false}, PromptLen: 1,
		Logprobs: []float32{0, lp - 0.5, lp + 0.5, 0}, Reward: reward,
	}
}

// group returns a group with a rollout for each reward; NaN is an invalid reward. Rollout i has
// mean log-probability lps[i], else −1.
func group(rewards []float64, lps ...float32) trinity.Group {
	var g trinity.Group
	for i, r := range rewards {
		reward, lp := trinity.Reward{Value: r, Valid: true}, float32(-1)
		if math.IsNaN(r) {
			reward = trinity.InvalidReward("timeout")
		}
		if i < len(lps) {
			lp = lps[i]
		}
		g = append(g, rollout(i, reward, lp))
	}
	return g
}

func build(t *testing.T, args map[string]any) trinity.Advantage {
	t.Helper()
	a, err := registry.Advantages.Build("grpo", args)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var bad = math.NaN() // an invalid reward

func TestGRPOEqualsValuesByHand(t *testing.T) {
	type args = map[string]any
	for _, c := range []struct {
		name   string
		args   args
		groups []trinity.Group
		want   [][]float64 // advantage of each rollout of each kept group
	}{
		{"one right of two: std of 0, 1 is √½", nil, []trinity.Group{group([]float64{0, 1})}, [][]float64{{-math.Sqrt(0.5), math.Sqrt(0.5)}}},
		{"n − 1: std of 1, 2, 3 is 1", nil, []trinity.Group{group([]float64{1, 2, 3})}, [][]float64{{-1, 0, 1}}},
		{"epsilon", args{"epsilon": 1}, []trinity.Group{group([]float64{1, 2, 3})}, [][]float64{{-0.5, 0, 0.5}}},
		{"equal rewards", nil, []trinity.Group{group([]float64{1, 1, 1})}, [][]float64{{0, 0, 0}}},
		{"a group of one keeps its reward", nil, []trinity.Group{group([]float64{0.7})}, [][]float64{{0.7}}},
		{"invalid rewards are no zeros", nil, []trinity.Group{group([]float64{1, bad, 2, 3, bad})}, [][]float64{{-1, 0, 1}}},
		{"one valid reward is a group of one", nil, []trinity.Group{group([]float64{bad, 0.7})}, [][]float64{{0.7}}},
		{"no valid reward drops the group", nil, []trinity.Group{group([]float64{bad, bad}), group([]float64{1, 2, 3})}, [][]float64{{-1, 0, 1}}},
		{"std_threshold 0 drops equal rewards and groups of one", args{"std_threshold": 0},
			[]trinity.Group{group([]float64{1, 1}), group([]float64{5}), group([]float64{1, 2, 3})}, [][]float64{{-1, 0, 1}}},
		{"std_threshold 0 drops equal rewards whose sum is rounded", args{"std_threshold": 0},
			[]trinity.Group{group(slices.Repeat([]float64{-0.1}, 8)), group([]float64{0, 1})}, [][]float64{{-math.Sqrt2 / 2, math.Sqrt2 / 2}}},
		{"std_threshold drops a std that equals it", args{"std_threshold": 1},
			[]trinity.Group{group([]float64{1, 2, 3}), group([]float64{0, 2, 4})}, [][]float64{{-1, 0, 1}}},
		{"batch: the group's mean, the batch's std", args{"std_cal_level": "batch"}, // 1, 3, 5, 7: std √(20/3)
			[]trinity.Group{group([]float64{1, 3}), group([]float64{5, 7})},
			[][]float64{{-1 / math.Sqrt(20.0/3), 1 / math.Sqrt(20.0/3)}, {-1 / math.Sqrt(20.0/3), 1 / math.Sqrt(20.0/3)}}},
		{"batch of one reward", args{"std_cal_level": "batch"}, []trinity.Group{group([]float64{3})}, [][]float64{{3}}},
		{"batch with a group of one", args{"std_cal_level": "batch"}, // 1, 2, 3: std 1
			[]trinity.Group{group([]float64{1, 2}), group([]float64{3})}, [][]float64{{-0.5, 0.5}, {3}}},
		{"batch of equal rewards with a group of one", args{"std_cal_level": "batch"},
			[]trinity.Group{group([]float64{1, 1}), group([]float64{bad, 1})}, [][]float64{{0, 0}, {1}}},
		{"no std", args{"std_cal_level": "none"}, []trinity.Group{group([]float64{1, 2, 6}), group([]float64{0.7})},
			[][]float64{{-2, -1, 3}, {0.7}}},
		{"rank_penalty lowers what was likely", args{"rank_penalty": 0.5}, // ranks 1, 0: rewards 1·(1 − ½·½), 1
			[]trinity.Group{group([]float64{1, 1}, -1, -2)}, [][]float64{{-math.Sqrt(0.5), math.Sqrt(0.5)}}},
		{"rank_penalty everywhere in the formula", args{"rank_penalty": 1}, // ranks 2, 0, 1: rewards 3·⅓, 2, 4.5·⅔
			[]trinity.Group{group([]float64{3, 2, 4.5}, -1, -3, -2)}, [][]float64{{-1, 0, 1}}},
		{"rank_penalty: ties in group order", args{"rank_penalty": 1}, // ranks 0, 1, 2: 1, 2, 3
			[]trinity.Group{group([]float64{1, 3, 9}, -1, -1, -1)}, [][]float64{{-1, 0, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept, _, err := build(t, c.args).Advantages(t.Context(), c.groups)
			if err != nil {
				t.Fatal(err)
			}
			if len(kept) != len(c.want) {
				t.Fatalf("%d groups kept, want %d", len(kept), len(c.want))
			}
			for i, g := range kept {
				if len(g) != len(c.want[i]) {
					t.Fatalf("group %d has %d rollouts, want %d", i, len(g), len(c.want[i]))
				}
				for j, e := range g {
					want := []float64{0, c.want[i][j], c.want[i][j], 0}
					if !near(e.Advantages, want, 5e-6) {
						t.Errorf("group %d, rollout %d: %v, want %v", i, j, e.Advantages, want)
					}
				}
			}
		})
	}
}

func TestGRPOReportsMetrics(t *testing.T) {
	groups := []trinity.Group{group([]float64{1, 2, 3, bad}), group([]float64{4, 4}), group([]float64{9}), group([]float64{bad})}
	_, m, err := build(t, map[string]any{"std_threshold": 0.1, "rank_penalty": 0.5}).Advantages(t.Context(), groups)
	if err != nil {
		t.Fatal(err)
	}
	want := trinity.Metrics{
		"group_advantages/reward_mean/mean": 5, "group_advantages/reward_mean/max": 9, "group_advantages/reward_mean/min": 2,
		"group_advantages/reward_std/mean": 0.5, "group_advantages/reward_std/max": 1, "group_advantages/reward_std/min": 0,
		"filtered_count": 1, "invalid_count": 2, // the penalty spreads 4, 4
	}
	for name, w := range want {
		if g, ok := m[name]; !ok || math.Abs(g-w) > 1e-12 {
			t.Errorf("%s = %v, want %v", name, g, w)
		}
	}
	if len(m) != len(want) {
		t.Errorf("metrics %v", m)
	}
}

func TestInvalidRolloutsGetNoAdvantage(t *testing.T) {
	g := group([]float64{1, bad, 2})
	if _, _, err := build(t, nil).Advantages(t.Context(), []trinity.Group{g}); err != nil {
		t.Fatal(err)
	}
	if g[0].Advantages == nil || g[1].Advantages != nil {
		t.Errorf("advantages %v, %v", g[0].Advantages, g[1].Advantages)
	}
}

func TestDuplicatesFillDroppedGroups(t *testing.T) {
	run := func(step int64) []trinity.Group {
		groups := []trinity.Group{group([]float64{1, 1}), group([]float64{0, 1}), group([]float64{2, 2}), group([]float64{bad}),
			group([]float64{3, 5}), group([]float64{4, 4}), group([]float64{0, 9})}
		for i, g := range groups {
			for _, e := range g {
				e.ID.Step, e.ID.Task = step, string(rune('a'+i))
			}
		}
		kept, m, err := build(t, map[string]any{"std_threshold": 0, "duplicate_experiences": true}).Advantages(t.Context(), groups)
		if err != nil {
			t.Fatal(err)
		}
		if m["filtered_count"] != 6 {
			t.Errorf("filtered_count %v, want 6", m["filtered_count"])
		}
		return kept
	}
	kept := run(1)
	if len(kept) != 7 {
		t.Fatalf("%d groups, want the 7 there were", len(kept))
	}
	ids, copies := map[string]bool{}, map[string]int{}
	for i, g := range kept {
		for j, e := range g {
			if ids[e.ID.String()] {
				t.Errorf("id %s twice", e.ID)
			}
			ids[e.ID.String()] = true
			if i < 3 {
				continue
			}
			original := kept[slices.IndexFunc(kept[:3], func(o trinity.Group) bool { return o[0].ID.Task == e.ID.Task })][j]
			if !slices.Equal(e.Advantages, original.Advantages) || e.Reward.Value != original.Reward.Value || &e.Mask[0] == &original.Mask[0] {
				t.Errorf("%s is no deep copy of %s", e.ID, original.ID)
			}
		}
		copies[g[0].ID.Task]++
	}
	for task, n := range copies { // 3 kept and 4 copies: every group twice before one is taken a third time
		if n < 2 || n > 3 {
			t.Errorf("group %s occurs %d times among %v", task, n, copies)
		}
	}
	order := func(kept []trinity.Group) (s string) {
		for _, g := range kept {
			s += g[0].ID.Task
		}
		return s
	}
	if again := order(run(1)); again != order(kept) {
		t.Errorf("the same batch gave %s, then %s", order(kept), again)
	}
	orders := map[string]bool{}
	for step := range int64(20) {
		orders[order(run(step))] = true
	}
	if len(orders) < 2 {
		t.Error("20 batches were all refilled alike")
	}
}

func TestDuplicatesNeedAGroup(t *testing.T) {
	kept, _, err := build(t, map[string]any{"std_threshold": 0,
		"duplicate_experiences": true}).Advantages(t.Context(), []trinity.Group{group([]float64{1, 1})})
	if err != nil || len(kept) != 0 {
		t.Errorf("kept %v, %v", kept, err)
	}
}

func TestGRPOReportsBadInput(t *testing.T) {
	type args = map[string]any
	for _, c := range []struct {
		args args
		want string
	}{
		{args{"epsilon": 0}, "epsilon"}, {args{"epsilon": math.NaN()}, "epsilon"}, {args{"std_threshold": -1}, "std_threshold"},
		{args{"rank_penalty": 1.5}, "rank_penalty"}, {args{"rank_penalty": -0.5}, "rank_penalty"},
		{args{"std_cal_level": "run"}, "want group, batch or none"},
		{args{"std_threshhold": 1}, `did you mean "std_threshold"`},
	} {
		if _, err := registry.Advantages.Build("grpo", c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.args, err, c.want)
		}
	}
	infinite := group([]float64{1, math.Inf(1)})
	if _, _, err := build(t, nil).Advantages(t.Context(), []trinity.Group{infinite}); err == nil ||
		!strings.Contains(err.Error(), "1/t/1/0: its reward is +Inf") {
		t.Errorf("infinite reward: %v", err)
	}
	unknown := group([]float64{1, 2})
	unknown[1].Logprobs = nil
	if _, _, err := build(t, args{"rank_penalty": 0.5}).Advantages(t.Context(), []trinity.Group{unknown}); err == nil ||
		!strings.Contains(err.Error(), "1/t/1/0 has 0 logprobs") {
		t.Errorf("rank_penalty without logprobs: %v", err)
	}
}

func TestNoneChangesNothing(t *testing.T) {
	a, err := registry.Advantages.Build("none")
	if err != nil {
		t.Fatal(err)
	}
	g := group([]float64{1, bad})
	kept, _, err := a.Advantages(t.Context(), []trinity.Group{g})
	if err != nil || len(kept) != 1 || len(kept[0]) != 2 || g[0].Advantages != nil {
		t.Errorf("kept %v, %v", kept, err)
	}
}

func TestGRPOEqualsPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/torch.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Groups [][]struct {
			Mask     []bool
			Logprobs []float32
			Valid    bool
			Reward   float64
		}
		Cases []struct {
			Args       map[string]any
			Advantages [][][]float64 // of kept groups; null for a dropped one
			Filtered   float64
		}
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	for _, c := range recorded.Cases {
		var groups []trinity.Group
		for _, rg := range recorded.Groups {
			var g trinity.Group
			for _, e := range rg {
				g = append(g, &trinity.Experience{Tokens: make([]int32, len(e.Mask)), Mask: e.Mask, Logprobs: e.Logprobs,
					Reward: trinity.Reward{Value: e.Reward, Valid: e.Valid}})
			}
			groups = append(groups, g)
		}
		kept, m, err := build(t, c.Args).Advantages(t.Context(), groups)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(c.Advantages, func(g [][]float64) bool { return g == nil })
		if len(kept) != len(want) || m["filtered_count"] != c.Filtered {
			t.Fatalf("%v: %d groups kept, %v filtered; want %d, %v", c.Args, len(kept), m["filtered_count"], len(want), c.Filtered)
		}
		for i, g := range kept {
			for j, e := range g {
				if !near(e.Advantages, want[i][j], 1e-6) {
					t.Errorf("%v, group %d, rollout %d: %v, want %v", c.Args, i, j, e.Advantages, want[i][j])
				}
			}
		}
	}
}

func near(got []float32, want []float64, tolerance float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if !(math.Abs(float64(got[i])-want[i]) <= tolerance*(1+math.Abs(want[i]))) {
			return false
		}
	}
	return true
}
