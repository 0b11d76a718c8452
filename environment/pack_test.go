package environment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// The later tasks of a pack have the grid of the first, with what was seen; a new pack begins anew.
func TestCostGridStaysAsItIsInAPack(t *testing.T) {
	row := func(index int, pack uint64) *trinity.Task {
		return &trinity.Task{Row: map[string]any{"seed": 10 + index, "pack_seed": pack, "task_idx": index, "pack_size": 2}}
	}
	env, err := open(t, "cod_grid_navigation", map[string]any{"min_rounds": 2, "max_rounds": 2}).OpenEnvironment(t.Context(), row(0, 7))
	if err != nil {
		t.Fatal(err)
	}
	r := env.(*rook)
	picture := func(task *trinity.Task) string {
		t.Helper()
		if err := r.Reuse(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reset(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		return r.picture()
	}
	unseen := picture(row(0, 7))
	if strings.Trim(strings.Join(strings.Fields(unseen), ""), "0123456789?") != "" || !strings.Contains(unseen, "?  ?") {
		t.Errorf("the grid begins as\n%s", unseen)
	}
	beside := r.at + 1
	if r.at%r.columns > 0 {
		beside = r.at - 1
	}
	out := step(t, r, "```"+cell(r, beside)+"```")
	if out.Done || *out.Reward != 0 || out.Metrics["cost"] < 0 {
		t.Errorf("after a move: %+v", out)
	}
	seen := r.picture()
	if seen == unseen || picture(row(1, 7)) != seen || picture(row(0, 7)) != unseen || picture(row(0, 8)) == seen {
		t.Error("what was seen is not what the pack knows")
	}
	if out := step(t, r, "```99, 99```"); !out.Done || *out.Reward != 0 || !strings.Contains(out.Messages[0].Content, "outside of the grid") {
		t.Errorf("a move out of the grid: %+v", out)
	}
}

// Without a seed of the pack each row has a grid of its own.
func TestCostGridFollowsFromTheRow(t *testing.T) {
	row := func(index int) *trinity.Task {
		return &trinity.Task{Row: map[string]any{"seed": 10 + index, "task_idx": index, "pack_size": 2}}
	}
	env, err := open(t, "cod_grid_navigation", nil).OpenEnvironment(t.Context(), row(0))
	if err != nil {
		t.Fatal(err)
	}
	r := env.(*rook)
	var costs [][]int
	for index := range 2 {
		if err := r.Reuse(t.Context(), row(index)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reset(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		costs = append(costs, slices.Clone(r.costs))
	}
	if slices.Equal(costs[0], costs[1]) {
		t.Error("the second row has the grid of the first")
	}
}

// A way to the goal has the reward of its mean cost.
func TestCostGridRewardsCheapWays(t *testing.T) {
	for seed := range uint64(20) {
		env, _ := begin(t, "cod_grid_navigation", map[string]any{"min_rounds": 3, "max_rounds": 3}, map[string]any{"seed": seed})
		r := env.(*rook)
		r.goal = (r.at/r.columns+1)%r.rows*r.columns + r.at%r.columns // below, or at the top
		there, back := cell(r, r.goal), cell(r, r.at)
		step(t, r, there)
		step(t, r, back)
		out := step(t, r, "```"+there+"```")
		if want := 1 - float64(r.sum)/float64(100*r.entered); !out.Done || *out.Reward != want || out.Metrics["success"] != 1 {
			t.Errorf("seed %d: %+v, want %g", seed, out, want)
		}
	}
}

// cell returns the name of a cell.
func cell(r *rook, at int) string { return fmt.Sprintf("%d, %d", at/r.columns, at%r.columns) }

// Every wanted element can be made, and the tasks of a pack want different ones with the same recipes.
func TestAlchemyCanBeDone(t *testing.T) {
	for seed := range uint64(30) {
		wanted := map[string]bool{}
		var recipes []recipe
		for index := range 3 {
			env, _ := begin(t, "cod_random_alchemy", map[string]any{"scope": "per_pack", "max_rounds": 200},
				map[string]any{"seed": seed + uint64(index), "pack_seed": seed, "task_idx": index, "pack_size": 3})
			c := env.(*combining)
			if index > 0 && (len(c.book.recipes) != len(recipes) || c.book.recipes[0] != recipes[0]) {
				t.Fatal("the recipes of a pack differ")
			}
			recipes = c.book.recipes
			wanted[c.target] = true
			var last trinity.Outcome
			for !last.Done {
				before := len(c.have)
				for _, r := range recipes {
					if c.have[r.of[0]] > 0 && c.have[r.of[1]] > 0 && c.have[r.makes] == 0 && !last.Done {
						last = step(t, env, "```"+strings.ToUpper(r.of[0])+" + "+r.of[1]+"```")
					}
				}
				if len(c.have) == before && !last.Done {
					t.Fatalf("seed %d: %s cannot be made", seed, c.target)
				}
			}
			if *last.Reward != 1 || last.Metrics["success"] != 1 {
				t.Errorf("%+v", last)
			}
		}
		if len(wanted) != 3 {
			t.Errorf("seed %d: the pack wants %v", seed, wanted)
		}
	}
	env, _ := begin(t, "cod_random_alchemy", map[string]any{"material_mode": "limited"}, nil)
	c := env.(*combining)
	e := c.book.tiers[0][0]
	c.have[e] = 1
	if out := step(t, env, e+" + "+e); !strings.Contains(out.Messages[0].Content, "not have enough") {
		t.Errorf("%+v", out)
	}
	for _, args := range []map[string]any{{"min_num_tiers": 1}, {"max_rounds": 0}, {"scope": "x"}, {"min_cross_tier_prob": 0.9}} {
		if _, err := registry.Environments.Build("cod_random_alchemy", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func controlRow() map[string]any {
	return map[string]any{"seed": 1, "x0": 0.0, "v0": 0.0, "x_target": 1.0, "v_target": 0.0, "horizon": 2, "control_penalty_coef": 0.5}
}

// With a = 1 and b = 1 the point goes 0, 0.5, 1 with v = 0.5: the loss is 2·0.25 + 0.5·0.25.
func TestOptimalControlFollowsItsRules(t *testing.T) {
	args := map[string]any{"a_env_range": []any{1.0, 1.0}, "b_env_range": []any{1.0, 1.0}}
	for reply, want := range map[string]float64{
		"I see.\n```\n0.5 if t < 1 else 0\n```":                                       1 / 1.625,
		"```clip(9, 0, pow(2, -1)) * (t == 0)```":                                     0, // true is no number
		"```max(min(0.5, 7), abs(-0.25)) if t == 0 and x < 1 or not t <= 5 else 0```": 1 / 1.625,
		"```1 / (x - x)```":    0,
		"```[0] * 99999999```": -0.1,
		"```'a' * 99999999```": -0.1,
		"```lambda: 1```":      -0.1,
		"```y```":              -0.1,
		"```max```":            0,
		"```print(1)```":       -0.1,
		"```1 << 99999999```":  -0.1,
		"```max(*[1])```":      -0.1,
		"```":                  -0.1,
		"```" + strings.Repeat("(", 5000) + "```": -0.1,
	} {
		env, _ := begin(t, "cod_optimalcontrol", args, controlRow())
		out := step(t, env, reply)
		if !out.Done || math.Abs(*out.Reward-want) > 1e-12 {
			t.Errorf("%.60q: reward %g, want %g: %s", reply, *out.Reward, want, out.Messages[0].Content)
		}
	}
	check := trinity.RequirementsOf(open(t, "cod_optimalcontrol", nil)).CheckTask
	row := controlRow()
	row["horizon"] = 0
	if check(&trinity.Task{Row: row}) == nil || check(&trinity.Task{}) == nil || check(&trinity.Task{Row: controlRow()}) != nil {
		t.Error("rows are not checked")
	}
	for seed := range uint64(50) {
		row := controlRow()
		row["pack_seed"] = seed
		env, _ := begin(t, "cod_optimalcontrol", map[string]any{"min_abs_b_env": 0.35}, row)
		if c := env.(*controlling); math.Abs(c.b) < 0.35 || math.Abs(c.b) > 1.5 || c.a < 0.55 || c.a > 1.2 {
			t.Errorf("a = %g, b = %g", c.a, c.b)
		}
	}
}

func TestOptimalControlConforms(t *testing.T) {
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{Row: controlRow()},
		Act: func(int, trinity.Observation) trinity.Action {
			return trinity.Action{Text: "```(x_target - x) / 2 - v```"}
		},
	}, open(t, "cod_optimalcontrol", map[string]any{"enable_process_noise": true, "process_noise_std": 0.1}))
}

// No reply makes an expression that takes long or panics.
func FuzzControl(f *testing.F) {
	for _, s := range []string{"x", "1 if t else v", "max(1, 2)", "[0]*9", "not x", "((", "-t*-t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		e, err := parseControl(source)
		if err != nil {
			return
		}
		given := map[string]float64{"x": 1, "v": 2, "t": 3, "x_target": 4, "v_target": 5, "horizon": 6, "remaining_steps": 7}
		if v, err := e.value(given); err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
			t.Errorf("%q gives %g", source, v)
		}
	})
}
