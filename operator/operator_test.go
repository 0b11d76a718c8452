package operator

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

type args = map[string]any

func build(t *testing.T, name string, a args) trinity.Operator {
	t.Helper()
	op, err := registry.Operators.Build(name, a)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// failed stands for a rollout without a valid reward.
var failed = math.NaN()

// group returns a group with one rollout for each reward.
func group(rewards ...float64) trinity.Group {
	var g trinity.Group
	for i, r := range rewards {
		e := &trinity.Experience{ID: trinity.ExperienceID{Step: 1, Task: "taskset/0", Run: i}, Tokens: []int32{1, 2, 3},
			Mask: []bool{false, true, true}, Logprobs: []float32{0, -1, -2}}
		if math.IsNaN(r) {
			e.Reward = trinity.InvalidReward("timeout")
		} else {
			e.Reward = trinity.NewReward(map[string]float64{"accuracy": r})
		}
		g = append(g, e)
	}
	return g
}

// values returns the rewards of each group, NaN for an invalid reward.
func values(groups []trinity.Group) [][]float64 {
	out := [][]float64{}
	for _, g := range groups {
		var r []float64
		for _, e := range g {
			if e.Reward.Valid {
				r = append(r, e.Reward.Value)
			} else {
				r = append(r, failed)
			}
		}
		out = append(out, r)
	}
	return out
}

func same(a, b [][]float64) bool {
	return slices.EqualFunc(a, b, func(x, y []float64) bool {
		return slices.EqualFunc(x, y, func(v, w float64) bool { return v == w || math.IsNaN(v) && math.IsNaN(w) })
	})
}

type groups = []trinity.Group

func TestOperatorsKeepAndScoreExperiences(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    args
		in      groups
		want    [][]float64
		metrics trinity.Metrics
	}{
		{"reward_filter", nil, groups{group(-1, 0, 1)}, [][]float64{{0, 1}}, trinity.Metrics{"filtered_count": 1}},
		{"reward_filter", args{"threshold": 0.5}, groups{group(0, 0.4), group(0.5, 0.49, 1)}, [][]float64{{0.5, 1}},
			trinity.Metrics{"filtered_count": 3}},
		{"reward_filter", args{"threshold": -2}, groups{group(failed, -1)}, [][]float64{{-1}}, trinity.Metrics{"filtered_count": 1}},
		{"reward_filter", nil, nil, nil, trinity.Metrics{"filtered_count": 0}},

		{"invalid_reward_filter", nil, groups{group(0, failed, 1), group(failed, failed), group(-1)}, [][]float64{{0, 1}, {-1}},
			trinity.Metrics{"filtered_count": 3}},
		{"invalid_reward_filter", nil, groups{group(0)}, [][]float64{{0}}, trinity.Metrics{"filtered_count": 0}},

		{"reward_std_filter", nil, groups{group(1, 1, 1), group(0, 2), group(3)}, [][]float64{{0, 2}}, trinity.Metrics{"filtered_count": 4,
			"origin_group_advantages/reward_mean/mean": 5. / 3, "origin_group_advantages/reward_mean/max": 3,
			"origin_group_advantages/reward_mean/min": 1,
			"origin_group_advantages/reward_std/mean": 1. / 3, "origin_group_advantages/reward_std/max": 1,
			"origin_group_advantages/reward_std/min": 0}},
		// the divisor is n, so the std is exactly 1
		{"reward_std_filter", args{"threshold": 1}, groups{group(0, 2)}, nil, trinity.Metrics{"filtered_count": 2,
			"origin_group_advantages/reward_mean/mean": 1, "origin_group_advantages/reward_mean/max": 1,
			"origin_group_advantages/reward_mean/min": 1,
			"origin_group_advantages/reward_std/mean": 1, "origin_group_advantages/reward_std/max": 1, "origin_group_advantages/reward_std/min": 1}},
		// an invalid reward does not count as a second reward
		{"reward_std_filter", nil, groups{group(1, failed), group(failed, failed)}, nil, trinity.Metrics{"filtered_count": 4,
			"origin_group_advantages/reward_mean/mean": 1, "origin_group_advantages/reward_mean/max": 1,
			"origin_group_advantages/reward_mean/min": 1,
			"origin_group_advantages/reward_std/mean": 0, "origin_group_advantages/reward_std/max": 0, "origin_group_advantages/reward_std/min": 0}},
		{"reward_std_filter", nil, nil, nil, trinity.Metrics{"filtered_count": 0}},

		{"dapo_dynamic_sampling", nil, groups{group(1, 1), group(0, 1, 0), group(0, 0), group(-1, -1)}, [][]float64{{0, 1, 0}},
			trinity.Metrics{"filtered_count": 6, "dropped_all_correct": 2, "dropped_all_wrong": 4}},
		{"dapo_dynamic_sampling", args{"correct_threshold": 0.5}, groups{group(0.5, 0.6), group(0.5, 0.5)}, [][]float64{{0.5, 0.6}},
			trinity.Metrics{"filtered_count": 2, "dropped_all_correct": 0, "dropped_all_wrong": 2}},
		{"dapo_dynamic_sampling", nil, groups{group(1, failed), group(0, failed), group(1, failed, 0)}, [][]float64{{1, failed, 0}},
			trinity.Metrics{"filtered_count": 4, "dropped_all_correct": 2, "dropped_all_wrong": 2}},
		{"dapo_dynamic_sampling", nil, groups{group(failed, failed)}, [][]float64{{failed, failed}},
			trinity.Metrics{"filtered_count": 0, "dropped_all_correct": 0, "dropped_all_wrong": 0}},
		{"dapo_dynamic_sampling", nil, nil, nil, trinity.Metrics{"filtered_count": 0, "dropped_all_correct": 0, "dropped_all_wrong": 0}},
		{"dapo_dynamic_sampling", args{"metric_key": "reward", "correct_threshold": 0.5}, groups{group(0.4, 0.6), group(0.6, 0.6)},
			[][]float64{{0.4, 0.6}}, trinity.Metrics{"filtered_count": 2, "dropped_all_correct": 2, "dropped_all_wrong": 0}},
		{"dapo_dynamic_sampling", nil, groups{without(group(0, 1)), without(group(1, 1)), group(1, 1)}, [][]float64{{0, 1}},
			trinity.Metrics{"filtered_count": 4, "dropped_all_correct": 4, "dropped_all_wrong": 0, "metric_missing_count": 4}},
		{"dapo_dynamic_sampling", nil, groups{without(group(0, 1)), without(group(0, 0))}, [][]float64{{0, 1}},
			trinity.Metrics{"filtered_count": 2, "dropped_all_correct": 0, "dropped_all_wrong": 2, "metric_missing_count": 4}},

		{"overlong_filter", nil, groups{cut(group(1, 0, 0.5)), cut(group(1))}, [][]float64{{0, 0.5}}, trinity.Metrics{"filtered_count": 2}},
		{"overlong_filter", args{"drop_truncated_prompts": true}, groups{cut(group(1, 0, 0.5))}, [][]float64{{0.5}},
			trinity.Metrics{"filtered_count": 2}},
		{"length_filter", args{"max_response_tokens": 2}, groups{growing(group(1, 2, 3)), growing(group(4))},
			[][]float64{{1, 2}, {4}}, trinity.Metrics{"filtered_count": 1}},
		{"length_filter", args{"min_response_tokens": 2, "max_response_tokens": 2},
			groups{growing(group(1, 2, failed)), growing(group(4))}, [][]float64{{2}}, trinity.Metrics{"filtered_count": 3}},
		{"length_filter", args{"min_prompt_tokens": 3}, groups{growing(group(1, 2))}, nil, trinity.Metrics{"filtered_count": 2}},
		{"length_filter", args{"max_prompt_tokens": 2, "min_prompt_tokens": 2}, groups{growing(group(1, 2))}, [][]float64{{1, 2}},
			trinity.Metrics{"filtered_count": 0}},
		{"length_filter", args{"max_response_tokens": 0}, groups{growing(group(1, 2))}, nil, trinity.Metrics{"filtered_count": 2}},

		// responses of 1, 2, 3 … tokens; L_max 3, L_cache 2: 0, −½, −1
		{"overlong_shaping", args{"max_response_length": 3, "cache_length": 2}, groups{growing(group(1, 1, 1, 1)), growing(group(failed))},
			[][]float64{{1, 0.5, 0, 0}, {failed}}, trinity.Metrics{"overlong_count": 3, "reward_diff/mean": -0.625,
				"reward_diff/max": 0, "reward_diff/min": -1}},
		{"overlong_shaping", args{"max_response_length": 3, "cache_length": 3, "penalty_factor": 3}, groups{growing(group(0, 0))},
			[][]float64{{-1, -2}}, trinity.Metrics{"overlong_count": 2, "reward_diff/mean": -1.5, "reward_diff/max": -1, "reward_diff/min": -2}},
		{"overlong_shaping", args{"max_response_length": 30, "cache_length": 3}, groups{group(failed)}, [][]float64{{failed}},
			trinity.Metrics{"overlong_count": 0}},

		{"response_deduplicator", nil, groups{saying(group(1, 2, 3, 4), "a", "b", "a", "A"), saying(group(5), "a")}, [][]float64{{1, 2, 4}, {5}},
			trinity.Metrics{"filtered_count": 1, "unique_response_ratio": 0.8}},
		{"response_deduplicator", args{"by": "text"}, groups{saying(group(1, 2, 3, 4), "a b", "b", " A \nB", "ab"),
			saying(group(5), "a b")}, [][]float64{{1, 2, 4}, {5}},
			trinity.Metrics{"filtered_count": 1, "unique_response_ratio": 0.8}},
		{"response_deduplicator", args{"scope": "step"}, groups{saying(group(1, 2), "a", "b"), saying(group(5), "a"),
			saying(group(6, 7), "c", "b")}, [][]float64{{1, 2}, {6}},
			trinity.Metrics{"filtered_count": 2, "unique_response_ratio": 0.6}},
		{"response_deduplicator", nil, groups{turns(saying(group(1, 2, 3, 4, 5, 6), "a", "b", "a", "b", "a", "c"))}, [][]float64{{1, 2, 5, 6}},
			trinity.Metrics{"filtered_count": 2, "unique_response_ratio": 2. / 3}},
		{"response_deduplicator", nil, nil, nil, trinity.Metrics{"filtered_count": 0}},

		{"top_k_filter", args{"k": 2}, groups{group(1, 3, 2, 3), group(failed, -1), group(failed)}, [][]float64{{3, 3}, {-1}},
			trinity.Metrics{"filtered_count": 4, "top_k_reward_threshold": 1}},
		{"top_k_filter", args{"k": 1}, groups{group(1, 1), group(0)}, [][]float64{{1}, {0}},
			trinity.Metrics{"filtered_count": 1, "top_k_reward_threshold": 0.5}},
		{"top_k_filter", args{"k": 3, "scope": "step"}, groups{group(1, 3, 2), group(2, 2), group(0)}, [][]float64{{3, 2}, {2}},
			trinity.Metrics{"filtered_count": 3, "top_k_reward_threshold": 2}},
		{"top_k_filter", args{"k": 1}, groups{turns(group(9, 1, 0, 2))}, [][]float64{{0, 2}},
			trinity.Metrics{"filtered_count": 2, "top_k_reward_threshold": 2}},
		{"top_k_filter", args{"k": 1}, groups{group(failed)}, nil, trinity.Metrics{"filtered_count": 1}},

		{"balance_filter", nil, groups{group(1, 0, 1, 1), group(0, failed, 0, 1), group(1, 1), group(0), group(0, 1)},
			[][]float64{{1, 0}, {0, failed, 1}, {1, 1}, {0}, {0, 1}},
			trinity.Metrics{"filtered_count": 3, "balanced_group_count": 2}},
		{"balance_filter", args{"max_ratio": 1.5}, groups{group(1, 0, 1, 1, 0, 1), group(0, 0, 1)},
			[][]float64{{1, 0, 1, 1, 0}, {0, 1}}, trinity.Metrics{"filtered_count": 2, "balanced_group_count": 2}},
		{"balance_filter", args{"max_ratio": math.Inf(1), "correct_threshold": 0.5}, groups{group(1, 0.5, 0.5, 0.5)},
			[][]float64{{1, 0.5, 0.5, 0.5}}, trinity.Metrics{"filtered_count": 0, "balanced_group_count": 0}},
		{"balance_filter", nil, groups{turns(group(0, 1, 0, 0, 1, 1))}, [][]float64{{0, 1, 0, 0}},
			trinity.Metrics{"filtered_count": 2, "balanced_group_count": 1}},

		{"expr_filter", args{"condition": "reward > group.mean"}, groups{group(0, 1, 2), group(failed), group(1, failed, 3)},
			[][]float64{{2}, {3}}, trinity.Metrics{"filtered_count": 5}},
		{"expr_filter", args{"condition": "not valid or parts.accuracy == group.max and response_tokens in 2..3"},
			groups{growing(group(2, 1, failed, 2)), growing(group(1, 1))}, [][]float64{{failed}, {1}}, trinity.Metrics{"filtered_count": 4}},
		{"expr_filter", args{"condition": `(info.judge ?? 1) > 0 && task startsWith "taskset/" && run < 2 && truncated == ""`},
			groups{group(1, 2, 3)}, [][]float64{{1, 2}}, trinity.Metrics{"filtered_count": 1}},
		{"expr_filter", args{"condition": "true"}, nil, nil, trinity.Metrics{"filtered_count": 0}},
		{"expr_mapper", args{"reward": "2 * reward + group.size"}, groups{group(1, failed, -1)}, [][]float64{{5, failed, 1}},
			trinity.Metrics{"reward_diff/mean": 3, "reward_diff/max": 4, "reward_diff/min": 2}},
		{"expr_mapper", args{"reward": "1 / reward"}, groups{group(0, 2)}, [][]float64{{failed, 0.5}},
			trinity.Metrics{"reward_diff/mean": -1.5, "reward_diff/max": -1.5, "reward_diff/min": -1.5}},
		{"expr_mapper", args{"reward": "info.score ?? run"}, groups{group(7, 7)}, [][]float64{{0, 1}},
			trinity.Metrics{"reward_diff/mean": -6.5, "reward_diff/max": -6, "reward_diff/min": -7}},

		{"pass_rate_calculator", nil, groups{group(1, 1), group(0, 0), group(1, 0), group(1./32, 1./32)},
			[][]float64{{1, 1}, {0, 0}, {1, 0}, {1. / 32, 1. / 32}},
			trinity.Metrics{"selection/<1_ratio": 0.75, "selection/>0_ratio": 0.75, "selection/valid_ratio": 0.5, "selection/<15_16_ratio": 0.75,
				"selection/>1_16_ratio": 0.5, "selection/strict_valid_ratio": 0.25}},
		{"pass_rate_calculator", nil, groups{group(1, failed), group(failed)}, [][]float64{{1, failed}, {failed}},
			trinity.Metrics{"selection/<1_ratio": 0, "selection/>0_ratio": 1, "selection/valid_ratio": 0, "selection/<15_16_ratio": 0,
				"selection/>1_16_ratio": 1, "selection/strict_valid_ratio": 0}},
		{"pass_rate_calculator", nil, groups{group(failed)}, [][]float64{{failed}}, nil},
	} {
		kept, metrics, err := build(t, c.name, c.args).Process(t.Context(), c.in)
		if err != nil || !same(values(kept), c.want) || !maps.EqualFunc(metrics, c.metrics, near) {
			t.Errorf("%s %v of %v\n got %v, %v, %v\nwant %v, %v", c.name, c.args, values(c.in), values(kept), metrics, err, c.want, c.metrics)
		}
	}
}

// without removes the parts of the rewards.
func without(g trinity.Group) trinity.Group {
	for _, e := range g {
		e.Reward.Parts = nil
	}
	return g
}

// cut truncates the response of the first rollout and the prompt of the second.
func cut(g trinity.Group) trinity.Group {
	for i, why := range []trinity.Truncation{trinity.ResponseTruncated, trinity.PromptTruncated} {
		if i < len(g) {
			g[i].Truncated = why
		}
	}
	return g
}

// growing gives the rollouts prompts of two tokens and responses of 1, 2, 3 … tokens.
func growing(g trinity.Group) trinity.Group {
	for i, e := range g {
		e.PromptLen, e.Tokens, e.Mask, e.Logprobs = 2, make([]int32, 3+i), make([]bool, 3+i), nil
	}
	return g
}

// saying gives the rollouts these responses, one token for each byte.
func saying(g trinity.Group, responses ...string) trinity.Group {
	for i, e := range g {
		e.Response, e.PromptLen, e.Tokens = responses[i], 1, []int32{int32(len(g))}
		for _, b := range []byte(responses[i]) {
			e.Tokens = append(e.Tokens, int32(b))
		}
		e.Mask, e.Logprobs = make([]bool, len(e.Tokens)), nil
	}
	return g
}

// turns turns a group into rollouts with two steps each.
func turns(g trinity.Group) trinity.Group {
	for i, e := range g {
		e.ID.Run, e.ID.Turn = i/2, i%2
	}
	return g
}

func TestExprMapperSetsInfo(t *testing.T) {
	g := group(1, 0, failed)
	shared := args{"old": 1}
	g[0].Info, g[1].Info = shared, shared
	op := build(t, "expr_mapper", args{"reward": "reward + 1", "info": args{"better": "reward > group.mean",
		"words": `len(split(response, " "))`, "old": "(info.old ?? 0) + 1"}})
	if _, _, err := op.Process(t.Context(), groups{g}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []args{{"better": true, "words": 1, "old": 2}, {"better": false, "words": 1, "old": 2},
		{"better": false, "words": 1, "old": 1}} {
		if !maps.Equal(g[i].Info, want) {
			t.Errorf("info of %d is %v, want %v", i, g[i].Info, want)
		}
	}
	if len(shared) != 1 || shared["old"] != 1 {
		t.Errorf("the shared map of the siblings is now %v", shared)
	}
}

func TestExpressionErrorsNameKeyAndExperience(t *testing.T) {
	for _, c := range []struct {
		name string
		args args
		want string
	}{
		{"expr_filter", args{"condition": "info.judge > 0"}, "condition of experience 1/taskset/0/0/0"},
		{"expr_filter", args{"condition": "info"}, "condition"},
		{"expr_filter", args{"condition": "info.length"}, "condition of experience"},
		{"expr_mapper", args{"reward": "metrics.length"}, "reward of experience"}, // absent is not 0
		{"expr_mapper", args{"info": args{"x": "info.a + 1"}}, "info.x of experience"},
	} {
		op, err := registry.Operators.Build(c.name, c.args)
		if err == nil {
			g := group(1)
			g[0].Info = args{"length": 3}
			_, _, err = op.Process(t.Context(), groups{g})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %v: got %v, want %q on one line", c.name, c.args, err, c.want)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

// A reward marked as valid is still invalid if its value is NaN or infinite.
func TestRewardsThatAreNotFiniteAreInvalid(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		g := group(1, 0)
		g[0].Reward.Value = bad
		for _, name := range []string{"reward_filter", "invalid_reward_filter"} {
			kept, _, err := build(t, name, nil).Process(t.Context(), groups{g})
			if err != nil || len(kept) != 1 || len(kept[0]) != 1 || kept[0][0] != g[1] {
				t.Errorf("%s with reward %v: kept %v, %v", name, bad, values(kept), err)
			}
		}
	}
}

func TestMaskResponseTruncatedClearsTheMask(t *testing.T) {
	g := group(1, 0, 0)
	g[0].Truncated, g[1].Truncated = trinity.ResponseTruncated, trinity.PromptTruncated
	kept, metrics, err := build(t, "mask_response_truncated", nil).Process(t.Context(), groups{g})
	if err != nil || len(kept) != 1 || len(kept[0]) != 3 || metrics["masked_truncated_count"] != 1 {
		t.Fatalf("got %v, %v, %v", kept, metrics, err)
	}
	for i, want := range []int{0, 2, 2} {
		if n := g[i].TrainedTokens(); n != want {
			t.Errorf("rollout %d trains %d tokens, want %d", i, n, want)
		}
	}
	if !g[0].Reward.Valid || g[0].Reward.Value != 1 || g[0].Logprobs[1] != 0 || g[1].Logprobs[1] != -1 {
		t.Errorf("got %+v", g[0])
	}
}

func TestMetricOfTheWorkflowDecidesWhatIsRight(t *testing.T) {
	g := group(0, 0)
	g[0].Metrics = map[string]float64{"solved": 1}
	g[1].Metrics = map[string]float64{"solved": 0}
	op := build(t, "dapo_dynamic_sampling", args{"metric_key": "solved"})
	if kept, _, err := op.Process(t.Context(), groups{g, group(0, 1), group(1, 1)}); err != nil || len(kept) != 2 {
		t.Errorf("kept %v, %v; want the reward to decide in groups without the metric", values(kept), err)
	}
	_, _, err := op.Process(t.Context(), groups{group(0, 1)})
	if err == nil || !strings.Contains(err.Error(), `"solved"`) || !strings.Contains(err.Error(), "accuracy") {
		t.Errorf("got %v, want an error that names the key and the known parts", err)
	}
}

func TestRewardShapingComputesRewards(t *testing.T) {
	config := func(key, op string, weight any) args {
		c := args{"stats_key": key, "op_type": op}
		if weight != nil {
			c["weight"] = weight
		}
		return c
	}
	for _, c := range []struct {
		name    string
		configs []any
		info    args
		want    float64 // if the reward was 1; NaN if the new reward is invalid
		missing float64
	}{
		{"add, weight 1", []any{config("s", "ADD", nil)}, args{"s": 0.5}, 1.5, 0},
		{"add without op_type", []any{args{"stats_key": "s"}}, args{"s": 0.5}, 1.5, 0},
		{"add", []any{config("s", "ADD", 2)}, args{"s": 0.5}, 2, 0},
		{"sub", []any{config("s", "SUB", 2.0)}, args{"s": float32(0.5)}, 0, 0},
		{"mul", []any{config("s", "MUL", 2)}, args{"s": 3}, 6, 0},
		{"div", []any{config("s", "DIV", 2)}, args{"s": int64(2)}, 0.25, 0},
		{"div by 0", []any{config("s", "DIV", nil)}, args{"s": 0}, 1, 0},
		{"weight 0", []any{config("s", "ADD", 0)}, args{"s": 5}, 1, 0},
		{"one after the other", []any{config("a", "ADD", nil), config("b", "MUL", 3)}, args{"a": 1, "b": true}, 6, 0},
		{"no key", []any{config("x", "MUL", 3), config("s", "ADD", nil)}, args{"s": 1}, 2, 1},
		{"null", []any{config("s", "MUL", 3)}, args{"s": nil}, 1, 1},
		{"not a number", []any{config("s", "ADD", nil)}, args{"s": math.NaN()}, failed, 0},
		{"overflow", []any{config("s", "MUL", 1e300), config("s", "MUL", 1e300)}, args{"s": 1e300}, failed, 0},
	} {
		g := group(1, failed)
		g[0].Info, g[1].Info = c.info, c.info
		kept, metrics, err := build(t, "reward_shaping_mapper", args{"reward_shaping_configs": c.configs}).Process(t.Context(), groups{g})
		if err != nil || !same(values(kept), [][]float64{{c.want, failed}}) || metrics["shaping_missing_count"] != c.missing {
			t.Errorf("%s: got %v, %v, %v; want %v", c.name, values(kept), metrics, err, c.want)
		}
		diff, ok := metrics["reward_diff/mean"]
		if math.IsNaN(c.want) == ok || ok && diff != c.want-1 {
			t.Errorf("%s: reward_diff/mean is %v, %v", c.name, diff, ok)
		}
	}
}

func TestRewardShapingRefusesTexts(t *testing.T) {
	g := group(1)
	g[0].Info = args{"s": "good"}
	op := build(t, "reward_shaping_mapper", args{"reward_shaping_configs": []any{args{"stats_key": "s", "op_type": "ADD"}}})
	if _, _, err := op.Process(t.Context(), groups{g}); err == nil || !strings.Contains(err.Error(), `"s"`) {
		t.Errorf("got %v, want an error that names the key", err)
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	catalog, _ := registry.Find("operator")
	shaping := func(c args) args { return args{"reward_shaping_configs": []any{c}} }
	for _, c := range []struct {
		name string
		args args
		want string
	}{
		{"reward_filter", args{"treshold": 1}, `"threshold"`},
		{"reward_filter", args{"threshold": "high"}, "threshold"},
		{"reward_std_filter", args{"threshold": -0.1}, "must be at least 0"},
		{"reward_std_filter", args{"threshold": math.NaN()}, "must be at least 0"},
		{"dapo_dynamic_sampling", args{"metric_key": ""}, "metric_key"},
		{"reward_shaping_mapper", nil, "reward_shaping_configs"},
		{"reward_shaping_mapper", shaping(args{"stats_key": "s", "op_type": "add"}), "ADD, SUB, MUL or DIV"},
		{"reward_shaping_mapper", shaping(args{"op_type": "ADD"}), "stats_key"},
		{"reward_shaping_mapper", shaping(args{"stats_key": "s", "op_type": "ADD", "wieght": 1}), "wieght"},
		{"mask_response_truncated", args{"x": 1}, "takes none"},
		{"length_filter", nil, "min_prompt_tokens"},
		{"length_filter", args{"min_response_tokens": 3, "max_response_tokens": 2}, "no experience would remain"},
		{"length_filter", args{"max_prompt_tokens": -1}, "must be at least 0"},
		{"overlong_shaping", nil, "cache_length"},
		{"overlong_shaping", args{"max_response_length": 1, "cache_length": 2}, "cache_length"},
		{"overlong_shaping", args{"max_response_length": 2, "cache_length": 2, "penalty_factor": -1}, "penalty_factor"},
		{"response_deduplicator", args{"scope": "run"}, "want group or step"},
		{"response_deduplicator", args{"by": "ids"}, "want tokens or text"},
		{"top_k_filter", nil, "at least 1"},
		{"top_k_filter", args{"k": 1, "scope": "all"}, "want group or step"},
		{"balance_filter", args{"max_ratio": 0.5}, "at least 1"},
		{"balance_filter", args{"metric_key": ""}, "metric_key"},
		{"expr_filter", nil, "condition"},
		{"expr_filter", args{"condition": "rewrad > 0"}, "unknown name rewrad"},
		{"expr_filter", args{"condition": "reward +"}, "condition: "},
		{"expr_filter", args{"condition": "reward"}, "bool"},
		{"expr_filter", args{"condition": "now().Year() > 2000"}, "now"},
		{"expr_mapper", nil, "set reward, info"},
		{"expr_mapper", args{"reward": "response"}, "float64"},
		{"expr_mapper", args{"info": args{"a": "b"}}, "info.a"},
		{"starlark", nil, "script or path"},
		{"starlark", args{"script": "x = 1"}, "process(group)"},
		{"starlark", args{"script": "def process(group) return group"}, "script:1"},
		{"starlark", args{"script": "x = [i for i in range(1000000000)]"}, "max_steps = 10000000"},
		{"starlark", args{"path": "nowhere.star"}, "nowhere.star"},
		{"starlark", args{"script": "def process(g): return g", "max_steps": 0}, "max_steps"},
		{"starlark", args{"script": "def process(g): return g", "timeout": 0}, "timeout"},
		{"exec", nil, "command"},
		{"exec", args{"command": []any{"no-such-program-here"}}, "no-such-program-here"},
		{"exec", args{"command": []any{"go"}, "timeout": 0}, "timeout"},
		{"exec", args{"command": "go"}, "a list"},
		{"exec", args{"command": []any{"go"}, "max_memory_mb": -1}, "max_memory_mb"},
		{"http", nil, "url"},
		{"http", args{"url": "ftp://a"}, "url"},
		{"http", args{"url": "http://a", "timeout": -1}, "timeout"},
		{"http", args{"url": "http://a", "max_retry_times": -1}, "max_retry_times"},
		{"http", args{"url": "http://a", "max_retry_interval": -1}, "max_retry_interval"},
	} {
		errs := catalog.Check(c.name, c.args)
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%s %v: got %v, want %q", c.name, c.args, errs, c.want)
		}
	}
}
