package advantage

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

type args = map[string]any

func made(t *testing.T, name string, a args) trinity.Advantage {
	t.Helper()
	out, err := registry.Advantages.Build(name, a)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// perRollout runs an advantage function. It returns the advantage at the first trained token of
// each remaining rollout, by group.
func perRollout(t *testing.T, name string, a args, groups ...trinity.Group) [][]float64 {
	t.Helper()
	kept, _, err := made(t, name, a).Advantages(t.Context(), groups)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float64
	for _, g := range kept {
		var of []float64
		for _, e := range g {
			of = append(of, float64(e.Advantages[slices.Index(e.Mask, true)]))
		}
		out = append(out, of)
	}
	return out
}

func TestGroupAdvantagesEqualValuesByHand(t *testing.T) {
	ln := math.Log
	for _, c := range []struct {
		name, fn string
		args     args
		rewards  []float64
		want     []float64
	}{
		{"the reward", "reinforce", nil, []float64{1, -2, 0}, []float64{1, -2, 0}},
		{"invalid is left out", "reinforce", nil, []float64{1, bad, 3}, []float64{1, 3}},
		{"less the mean of the others", "rloo", nil, []float64{1, 0, 0, 1}, []float64{2. / 3, -2. / 3, -2. / 3, 2. / 3}},
		{"less that of the other", "rloo", nil, []float64{5, 3}, []float64{2, -2}},
		{"invalid is no other", "rloo", nil, []float64{5, bad, 3}, []float64{2, -2}},
		{"group of one", "rloo", nil, []float64{0.7}, []float64{0.7}},
		{"equal", "rloo", nil, []float64{1, 1, 1}, []float64{0, 0, 0}},
		{"mean", "opmd", nil, []float64{1, 2, 6}, []float64{-2, -1, 3}},
		{"logavgexp of 0, ln 3 is ln 2", "opmd", args{"opmd_baseline": "logavgexp"}, []float64{0, ln(3)}, []float64{-ln(2), ln(1.5)}},
		{"τ 2", "opmd", args{"opmd_baseline": "logavgexp", "tau": 2}, []float64{0, 2 * ln(3)}, []float64{-2 * ln(2), 2 * ln(1.5)}},
		{"a cold τ does not overflow", "opmd", args{"opmd_baseline": "logavgexp", "tau": 1e-3}, []float64{0, 1000},
			[]float64{-1000, 1e-3 * ln(2)}},
		{"group of one", "opmd", args{"opmd_baseline": "logavgexp"}, []float64{0.7}, []float64{0.7}},
		{"equal", "opmd", args{"opmd_baseline": "logavgexp"}, []float64{0.3, 0.3}, []float64{0, 0}},
		{"shifted", "asymre", nil, []float64{0, 1}, []float64{-0.4, 0.6}},
		{"equal rewards are good by the shift", "asymre", nil, []float64{1, 1}, []float64{0.1, 0.1}},
		{"group of one", "asymre", nil, []float64{0.7}, []float64{0.7}},
		{"less the mean", "rec", nil, []float64{0, 1}, []float64{-0.5, 0.5}},
		{"std over n of 0, 1 is ½", "rec", args{"std_normalize": true}, []float64{0, 1}, []float64{-1, 1}},
		{"group of one", "rec", args{"std_normalize": true, "drop": "balance"}, []float64{0.7}, []float64{0.7}},
		{"nothing to balance", "rec", args{"drop": "balance"}, []float64{0, 1, 1}, []float64{-2. / 3, 1. / 3, 1. / 3}},
		{"equal", "rec", args{"drop": "balance", "std_normalize": true}, []float64{2, 2}, []float64{0, 0}},
		{"alias", "grpo_verl", nil, []float64{1, 2, 3}, []float64{-1, 0, 1}},
		{"alias", "opmd_verl", nil, []float64{1, 2, 6}, []float64{-2, -1, 3}},
		{"alias", "asymre_verl", nil, []float64{0, 1}, []float64{-0.4, 0.6}},
	} {
		t.Run(c.fn+": "+c.name, func(t *testing.T) {
			got := perRollout(t, c.fn, c.args, group(c.rewards))
			if len(got) != 1 || !closeTo(got[0], c.want, 5e-6) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func closeTo(got, want []float64, tolerance float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tolerance*(1+math.Abs(want[i]))) {
			return false
		}
	}
	return true
}

func TestRECBalanceIgnoresTheSurplus(t *testing.T) {
	run := func(order ...int) map[int]float64 {
		all := group([]float64{0, 0, 0, 0, 1})
		var g trinity.Group
		for _, i := range order {
			g = append(g, all[i])
		}
		kept, m, err := made(t, "rec", args{"drop": "balance"}).Advantages(t.Context(), []trinity.Group{g})
		if err != nil || m["drop_balance"] != 3 {
			t.Fatalf("metrics %v, %v; want 3 of 4 below the mean dropped", m, err)
		}
		out := map[int]float64{}
		for _, e := range kept[0] {
			out[e.ID.Run] = float64(e.Advantages[1])
		}
		return out
	}
	first := run(0, 1, 2, 3, 4)
	low, zero := 0, 0
	for r, a := range first {
		switch {
		case r == 4 && a == 0.5:
		case r < 4 && a == 0:
			zero++
		case r < 4 && a == -0.5: // the mean of 0 and 1
			low++
		default:
			t.Errorf("run %d has advantage %v", r, a)
		}
	}
	if low != 1 || zero != 3 {
		t.Errorf("advantages %v: want one −½ and three 0 among the zeros", first)
	}
	for r, a := range run(4, 2, 0, 3, 1) {
		if first[r] != a {
			t.Errorf("run %d: %v in one order, %v in another", r, first[r], a)
		}
	}
}

// As many rollouts remain below the mean as at or above it.
func TestRECBalanceDropsOnlyTheSurplus(t *testing.T) {
	kept, m, err := made(t, "rec", args{"drop": "balance"}).Advantages(t.Context(), []trinity.Group{group([]float64{0, 1, 0, 0, 1})})
	if err != nil || m["drop_balance"] != 1 {
		t.Fatalf("metrics %v, %v; want 1 of 3 below the mean dropped", m, err)
	}
	var got []float64
	for _, e := range kept[0] {
		got = append(got, float64(e.Advantages[1]))
	}
	slices.Sort(got)
	if !closeTo(got, []float64{-0.5, -0.5, 0, 0.5, 0.5}, 1e-6) {
		t.Errorf("advantages %v: want those of two 0 and two 1, and one 0", got)
	}
}

// step is one step of a run with one trained token.
func step(run, turn int, reward float64, info args) *trinity.Experience {
	e := rollout(run, trinity.Reward{Value: reward, Valid: !math.IsNaN(reward)}, -1)
	e.ID.Turn, e.Info = turn, info
	return e
}

func TestStepAdvantagesEqualValuesByHand(t *testing.T) {
	h := math.Sqrt(0.5)
	reward := func(v float64, state string) args { return args{"step_reward": v, "env_state_hash": state} }
	for _, c := range []struct {
		name, fn string
		args     args
		group    trinity.Group
		want     []float64 // in the group's order
	}{
		{"the last turn's reward, not the last in the list", "step_wise_grpo", nil,
			trinity.Group{step(0, 1, 1, nil), step(0, 0, 7, nil), step(1, 0, 0, nil)}, []float64{h, h, -h}},
		{"an outcome that is invalid drops the run", "step_wise_grpo", nil,
			trinity.Group{step(0, 0, 9, nil), step(0, 1, bad, nil), step(1, 0, 0, nil), step(2, 0, 1, nil)}, []float64{-h, h}},
		{"a step before the last needs no reward", "step_wise_grpo", nil,
			trinity.Group{step(0, 0, bad, nil), step(0, 1, 1, nil), step(1, 0, 0, nil)}, []float64{h, h, -h}},
		{"one run", "step_wise_grpo", nil, trinity.Group{step(3, 0, 0, nil), step(3, 1, 0.7, nil)}, []float64{0.7, 0.7}},
		{"equal", "step_wise_grpo", nil, trinity.Group{step(0, 0, 1, nil), step(1, 0, 1, nil)}, []float64{0, 0}},
		{"divided by the steps", "step_wise_grpo", args{"enable_step_norm": true},
			trinity.Group{step(0, 0, 1, nil), step(0, 1, 1, nil), step(1, 0, 0, nil)}, []float64{h / 2, h / 2, -h}},
		{"no std", "step_wise_grpo", args{"std_cal_level": "none"}, trinity.Group{step(0, 0, 4, nil), step(1, 0, 0, nil)}, []float64{2, -2}},
		{"cod is step_wise_grpo", "cod", nil, trinity.Group{step(0, 1, 1, nil), step(0, 0, 7, nil), step(1, 0, 0, nil)}, []float64{h, h, -h}},
		// returns 1 + ½·2 = 2, 2 and 0 + ½·3 = 1.5, 3; the runs earn 3 each; state a has 2 and 1.5,
		// the others are alone
		{"gigpo", "gigpo", args{"gamma": 0.5}, trinity.Group{step(0, 1, 0, reward(2, "b")), step(0, 0, 0, reward(1, "a")),
			step(1, 0, 0, reward(0, "a")), step(1, 1, 0, reward(3, "c"))}, []float64{0, 0.25, -0.25, 0}},
		{"gigpo: the outcome where no step is graded", "gigpo", args{"gamma": 0.5, "omega": 10}, // runs 4, 0; state s: ½·4 = 2 and 0
			trinity.Group{step(0, 0, 9, args{"env_state_hash": "s"}), step(0, 1, 4, nil),
				step(1, 0, 0, args{"env_state_hash": "s"})}, []float64{12, 2, -12}},
		{"gigpo: std", "gigpo", args{"fnorm": "std"}, trinity.Group{step(0, 0, 4, args{"env_state_hash": 1}),
			step(1, 0, 0, args{"env_state_hash": 1.0})}, []float64{2 * h, -2 * h}},
		{"gigpo: hashes of 64 bits", "gigpo", nil, // runs 4, 0; the same state
			trinity.Group{step(0, 0, 4, args{"env_state_hash": uint64(1<<63 + 1)}),
				step(1, 0, 0, args{"env_state_hash": uint64(1<<63 + 1)})}, []float64{4, -4}},
		{"gigpo: hashes that differ in the last bit", "gigpo", nil, // no state is met twice
			trinity.Group{step(0, 0, 4, args{"env_state_hash": int64(1<<62 + 1)}),
				step(1, 0, 0, args{"env_state_hash": int64(1 << 62)})}, []float64{2, -2}},
		{"gigpo: one run", "gigpo", nil, trinity.Group{step(0, 0, 0, nil), step(0, 1, 0.7, nil)}, []float64{0.7, 0.7}},
		{"gigpo: equal", "gigpo", args{"fnorm": "std"}, trinity.Group{step(0, 0, 1, args{"env_state_hash": "s"}),
			step(1, 0, 1, args{"env_state_hash": "s"})}, []float64{0, 0}},
	} {
		t.Run(c.fn+": "+c.name, func(t *testing.T) {
			got := perRollout(t, c.fn, c.args, c.group)
			if len(got) != 1 || !closeTo(got[0], c.want, 5e-6) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// Equal outcomes of another task do not inflate the advantage of a single run.
func TestSingleRunIgnoresOtherTasks(t *testing.T) {
	one, two := trinity.Group{step(0, 0, 1, nil)}, trinity.Group{step(0, 0, 1, nil), step(1, 0, 1, nil)}
	got := perRollout(t, "step_wise_grpo", args{"std_cal_level": "batch"}, one, two)
	if !closeTo(slices.Concat(got...), []float64{1, 0, 0}, 5e-6) {
		t.Errorf("%v, want 1, and 0 for both of the other task", got)
	}
}

// A colder temperature gives good scores more weight, up to e²⁰. No advantage is infinite.
func TestCoDStaysFiniteAtColdTemperatures(t *testing.T) {
	solve := func(run int, reward float64) *trinity.Experience {
		return step(run, 0, reward, args{"exp_type": "solve_task", "task_idx": 0, "task_rewards": []any{reward}})
	}
	got := perRollout(t, "cod", args{"iterative_hint_e2e_causal": true, "red_weight_temp": 1e-3}, trinity.Group{solve(0, 1), solve(1, 0)})
	if len(got) != 1 || !closeTo(got[0], []float64{0.5 * math.Exp(20), 0}, 1e-6) {
		t.Errorf("%v, want ½·e²⁰ and 0", got)
	}
}

// If a run solves a task twice, only the earlier turn counts in the mean, wherever it is in the
// list.
func TestCoDCountsARunOnce(t *testing.T) {
	solve := func(run, turn int, reward float64) *trinity.Experience {
		return step(run, turn, reward, args{"exp_type": "solve_task", "task_idx": 0, "task_rewards": []any{reward}})
	}
	got := perRollout(t, "cod", args{"iterative_hint_e2e_causal": true},
		trinity.Group{solve(0, 1, 0.25), solve(0, 0, 1), solve(1, 0, 0), solve(0, 2, 9)})
	if len(got) != 1 || !closeTo(got[0], []float64{-0.25, 0.5, -0.5, 8.5}, 1e-6) { // less the mean of 1 and 0
		t.Errorf("%v", got)
	}
}

func TestGiGPOComparesStatesWithinATask(t *testing.T) {
	one := trinity.Group{step(0, 0, 4, args{"env_state_hash": "s"})}
	two := trinity.Group{step(0, 0, 0, args{"env_state_hash": "s"})}
	if got := perRollout(t, "gigpo", nil, one, two); !closeTo([]float64{got[0][0], got[1][0]}, []float64{4, 0}, 5e-6) {
		t.Errorf("%v, want the runs' own rewards", got)
	}
}

func TestTokenRewardsEqualValuesByHand(t *testing.T) {
	// a prompt token, a trained one, one of an environment, two trained ones, one of an environment
	e := &trinity.Experience{
		Tokens: make([]int32, 6), Mask: []bool{false, true, false, true, true, false}, Logprobs: []float32{0, -3, 0, -1, -1, 0},
		TeacherLogprobs: []float32{0, -1, 0, -3, -1, 0},
		Reward:          trinity.Reward{Value: 4, Valid: true}, Info: args{"reward_baseline": 1},
	}
	single := rollout(0, trinity.Reward{Value: 4, Valid: true}, -1)
	single.Mask = []bool{false, false, true, false}
	run := func(name string, a args, e *trinity.Experience) *trinity.Experience {
		if _, _, err := made(t, name, a).Advantages(t.Context(), []trinity.Group{{e}}); err != nil {
			t.Fatal(err)
		}
		return e
	}
	half := math.Sqrt(1 + 4./3) // returns 1, 2, 4: mean 7/3, variance 7/3
	if run("reinforceplusplus", args{"gamma": 0.5}, e); !near(e.Returns, []float64{0, 1, 0, 2, 4, 0}, 1e-6) ||
		!near(e.Advantages, []float64{0, -4. / 3 / half, 0, -1. / 3 / half, 5. / 3 / half, 0}, 1e-6) {
		t.Errorf("reinforceplusplus: %v, %v", e.Returns, e.Advantages)
	}
	if run("reinforceplusplus", nil, e); !near(e.Advantages, make([]float64, 6), 0) {
		t.Errorf("equal returns: %v", e.Advantages)
	}
	if run("reinforceplusplus", nil, single); !near(single.Advantages, make([]float64, 4), 0) ||
		!near(single.Returns, []float64{0, 0, 4, 0}, 0) {
		t.Errorf("a batch of one token: %v, %v", single.Advantages, single.Returns)
	}
	if run("remax", nil, e); !near(e.Advantages, []float64{0, 3, 0, 3, 3, 0}, 0) {
		t.Errorf("remax: %v", e.Advantages)
	}
	if run("on_policy_distill", args{"kl_coef": 0.5}, e); !near(e.Advantages, []float64{0, 1, 0, -1, 0, 0}, 0) {
		t.Errorf("on_policy_distill: %v", e.Advantages)
	}
	s, m := math.Exp(-3), (math.Exp(-3)+math.Exp(-1))/2
	up, down := -0.5*math.Log(s/m), -0.5*math.Log(math.Exp(-1)/m)
	if run("jsd", nil, e); !near(e.Advantages, []float64{0, up, 0, down, 0, 0}, 1e-6) {
		t.Errorf("jsd: %v", e.Advantages)
	}
	warm := func(d float64) float64 { return 0.5 * math.Log(0.5*math.Exp(d)+0.5) } // of half the log-ratios ±2
	if run("jsd", args{"temperature": 2}, e); !near(e.Advantages, []float64{0, warm(1), 0, warm(-1), 0, 0}, 1e-6) {
		t.Errorf("jsd at temperature 2: %v", e.Advantages)
	}
}

func TestUntrainedRolloutsGetZeroTokenAdvantages(t *testing.T) {
	e := rollout(0, trinity.Reward{Value: 1, Valid: true}, -1)
	e.Mask = make([]bool, 4)
	for _, name := range []string{"reinforceplusplus", "remax"} {
		e.Info = args{"reward_baseline": 0.5}
		if kept, _, err := made(t, name, nil).Advantages(t.Context(), []trinity.Group{{e}}); err != nil || len(kept) != 1 ||
			!near(e.Advantages, make([]float64, 4), 0) {
			t.Errorf("%s: %v, %v", name, e.Advantages, err)
		}
	}
}

func TestReMaxNeedsBaselines(t *testing.T) {
	g := group([]float64{1, 1, 1})
	for i, e := range g {
		e.Info = args{"reward_baseline": []any{0.25, nil, 1}[i]}
	}
	kept, m, err := made(t, "remax", nil).Advantages(t.Context(), []trinity.Group{g})
	if err != nil || m["invalid_count"] != 1 || len(kept) != 1 || len(kept[0]) != 2 || kept[0][0].Advantages[1] != 0.75 ||
		kept[0][1].Advantages[1] != 0 {
		t.Errorf("kept %v, %v, %v", kept, m, err)
	}
	g[0].Info = nil
	if _, _, err := made(t, "remax", nil).Advantages(t.Context(), []trinity.Group{g}); err == nil ||
		!strings.Contains(err.Error(), "1/t/0/0 has no info reward_baseline") {
		t.Errorf("error %v", err)
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	for _, c := range []struct {
		fn   string
		args args
		want string
	}{
		{"opmd", args{"opmd_baseline": "median"}, "want mean or logavgexp"}, {"opmd", args{"tau": 0}, "tau"},
		{"asymre", args{"baseline_shift": math.NaN()}, "baseline_shift"},
		{"rec", args{"drop": "all"}, "want balance"}, {"rec", args{"epsilon": 0}, "epsilon"},
		{"step_wise_grpo", args{"std_cal_level": "run"}, "want group, batch or none"},
		{"step_wise_grpo", args{"std_threshold": -1}, "std_threshold"}, {"step_wise_grpo", args{"epsilon": -1}, "epsilon"},
		{"gigpo", args{"gamma": 1.1}, "gamma"}, {"gigpo", args{"fnorm": "var"}, "want std or none"},
		{"gigpo", args{"omega": math.Inf(1)}, "omega"}, {"gigpo", args{"step_reward_key": ""}, "step_reward_key"},
		{"reinforceplusplus", args{"gamma": -0.1}, "gamma"}, {"on_policy_distill", args{"kl_coef": 0}, "kl_coef"},
		{"jsd", args{"lambda_coef": 1.5}, "lambda_coef"}, {"jsd", args{"temperature": 0}, "temperature"},
		{"jsd", args{"chunk_size": 512}, "chunk_size has no effect"}, {"jsd", args{"kl_coef": -1}, "kl_coef"},
		{"clipb", args{"mu": -1}, "mu"}, {"clipv", args{"max_frac": 2}, "max_frac"}, {"clipv", args{"epsilon": 0}, "epsilon"},
		{"cod", args{"e2e_causal_returns_style": "sum"}, "want mean, sliding_window_mean or discounted"},
		{"cod", args{"e2e_causal_returns_style": "sliding_window_mean"}, "e2e_causal_returns_window"},
		{"cod", args{"red_weight_temp": 1}, "without iterative_hint_e2e_causal"},
		{"cod", args{"iterative_hint_e2e_causal": true, "red_weight_adaptive_temp": true}, "red_weight_adaptive_version"},
		{"cod", args{"std_cal_level": "run"}, "want group, batch or none"},
	} {
		if _, err := registry.Advantages.Build(c.fn, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: error %v, want %q", c.fn, c.args, err, c.want)
		}
	}
}

func TestBaselinesAndCountsAreMetrics(t *testing.T) {
	groups := []trinity.Group{group([]float64{0, 1}), group([]float64{4})}
	_, m, err := made(t, "asymre", args{"baseline_shift": -0.1}).Advantages(t.Context(), groups)
	for name, want := range map[string]float64{"mean": 0.2, "max": 0.4, "min": 0} {
		if got := m["group_advantages/group_baseline/"+name]; err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("asymre: group_baseline/%s = %v, %v; want %v", name, got, err, want)
		}
	}
	equal := group([]float64{1, 1})
	_, m, err = made(t, "step_wise_grpo", args{"std_threshold": 0}).Advantages(t.Context(), []trinity.Group{group([]float64{0, 1, 2}), equal})
	if err != nil || m["experience_count"] != 3 || m["filtered_count"] != 2 {
		t.Errorf("step_wise_grpo: %v, %v; want experience_count 3 and filtered_count 2", m, err)
	}
}
