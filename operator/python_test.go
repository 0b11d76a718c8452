package operator

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// inPython returns an operator that a host has opened.
func inPython(t *testing.T, host trinity.Host, class string, own args, section args) (trinity.Operator, error) {
	t.Helper()
	op, err := registry.Operators.Build("python", trinitytest.PythonClass(t, class, own, section))
	if err == nil {
		err = op.(interface{ Open(trinity.Host) error }).Open(host)
	}
	return op, err
}

func pythonStep() []trinity.Group {
	one := func(task string, run int, reward float64, valid bool) *trinity.Experience {
		return &trinity.Experience{
			ID: trinity.ExperienceID{Step: 4, Task: task, Run: run}, Tokens: []int32{7, 8, 9, 10}, Mask: []bool{false, true, false, true},
			Logprobs: []float32{0, -1, 0, -2}, PromptLen: 1,
			Reward:   trinity.Reward{Value: reward, Valid: valid, Parts: map[string]float64{"a": reward}},
			Versions: [2]int64{2, 3}, Info: map[string]any{"kept": int64(1) << 60},
		}
	}
	return []trinity.Group{
		{one("a", 0, 1, true), one("a", 1, -1, true)},
		{one("b", 0, 0, false), one("b", 1, 0, true), one("b", 2, 2, true)},
	}
}

func told(groups []trinity.Group) string {
	var lines []string
	for _, g := range groups {
		var ids []string
		for _, e := range g {
			ids = append(ids, fmt.Sprintf("%s %v", e.ID, e.Reward.Value))
		}
		lines = append(lines, strings.Join(ids, ", "))
	}
	return strings.Join(lines, "; ")
}

func TestOperatorsInPython(t *testing.T) {
	host := trinitytest.Programs(t)
	op, err := inPython(t, host, "own_operators.Edit", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= 2; step++ {
		kept, m, err := op.Process(t.Context(), pythonStep())
		if err != nil {
			t.Fatal(err)
		}
		const want = "4/b/2/0 2.5, 4/b/1/0 0.5, 4/b/0/0 0; 4/a/1/0 0, 4/a/0/0 1.5; 4/a/2/0 1.5, 4/a/3/0 0"
		if got := told(kept); got != want {
			t.Errorf("kept %s\nwant %s", got, want)
		}
		if m["steps"] != float64(step) || m["filtered_count"] != 0 || len(m) != 2 {
			t.Errorf("metrics %v", m)
		}
		e := kept[0][0]
		if fmt.Sprint(e.Advantages, e.Mask, e.Metrics, e.Info["kept"], e.Info["seen"], e.Reward.Parts) !=
			fmt.Sprintf("[0 0 0 2.5] [false false false true] map[length:3] %d map[prepared:1 steps:%d version:3] map[a:2]", int64(1)<<60, step) {
			t.Errorf("%+v", *e)
		}
		if _, written := e.Info["model_version"]; written {
			t.Error("info has what was only offered")
		}
		if r := kept[1][0].Reward; r.Valid || r.Reason != "own_operators.Edit took it away" {
			t.Errorf("%+v", r)
		}
	}
	op, err = inPython(t, host, "own_operators.even", args{"keep": 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept, m, err := op.Process(t.Context(), pythonStep())
	if err != nil || told(kept) != "4/a/0/0 1, 4/a/1/0 -1; 4/b/0/0 0" || m["filtered_count"] != 2 {
		t.Errorf("%s, %v, %v", told(kept), m, err)
	}
}

func TestEqualOperatorsInPythonAreTwo(t *testing.T) {
	host := trinitytest.Programs(t)
	for range 2 {
		op, err := inPython(t, host, "own_operators.Edit", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, m, err := op.Process(t.Context(), pythonStep()); err != nil || m["steps"] != 1 {
			t.Errorf("metrics %v, %v", m, err)
		}
	}
}

func TestOperatorsInPythonThatFail(t *testing.T) {
	host := trinitytest.Programs(t)
	for how, want := range map[string]string{
		"new":        "own_operators.Wrong: experience 0 that it returned is a str and none of those that it got",
		"tokens":     "own_operators.Wrong: tokens of experience 0 that it returned (4/a/0) were changed",
		"mask":       "own_operators.Wrong: experience 4/a/1/0: action_mask names token 2, which the policy did not sample",
		"advantages": "own_operators.Wrong: experience 4/a/0/0: advantages: there are 1, want 3, one for each token after the prompt",
		"nan":        "own_operators.Wrong: experience 4/a/0/0: advantages: that of token 1 is NaN, want a finite number",
		"info":       "own_operators.Wrong: an entry of info is no JSON: ",
		"reward":     "own_operators.Wrong: reward of experience 0 that it returned (4/a/0) is a str: want a finite number",
		"raise":      "own_operators.Wrong: ValueError: odd; own_operators.py:",
	} {
		op, err := inPython(t, host, "own_operators.Wrong", args{"how": how}, nil)
		if err == nil {
			_, _, err = op.Process(t.Context(), pythonStep())
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s", how, err, want)
		}
	}
	for class, want := range map[string]string{
		"own_operators.None_":    "operator python: class: own_operators.None_ has no method process(exps)",
		"own_operators.also":     "operator python: args: own_operators.also lacks its argument n",
		"own_operators.deepcopy": "",
	} {
		if _, err := inPython(t, host, class, nil, nil); want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v\nwant %s", class, err, want)
		}
	}
}

// compatStep returns groups whose experiences have all that the operators of Trinity-RFT read.
func compatStep() []trinity.Group {
	r := rand.New(rand.NewPCG(3, 1))
	var groups []trinity.Group
	for task := range 6 {
		var g trinity.Group
		for run := range 4 {
			reward := float64(r.IntN(2) + task/5)
			e := &trinity.Experience{
				ID: trinity.ExperienceID{Step: 4, Task: fmt.Sprintf("sums/%d", task), Run: run}, Tokens: []int32{7, 8, 9}, PromptLen: 1,
				Mask: []bool{false, true, true}, Logprobs: []float32{0, -1, -2}, Reward: trinity.Reward{Value: reward, Valid: true},
				Metrics: map[string]float64{"accuracy": float64(r.IntN(2))}, Info: map[string]any{"quality": r.Float64()},
			}
			if task == 2 {
				e.Reward.Value, e.Metrics["accuracy"] = 1, 1
			}
			if run == 3 {
				e.Truncated = trinity.ResponseTruncated
			}
			g = append(g, e)
		}
		groups = append(groups, g)
	}
	return groups
}

// Operators of Trinity-RFT, as they are, keep, change and count what ours do.
func TestCompatOperators(t *testing.T) {
	t.Cleanup(bridge.Together())
	host := trinitytest.Programs(t)
	section := args{"interpreter": trinitytest.CompatPython(t)}
	const below = "trinity.buffer.operators"
	shaping := args{"reward_shaping_configs": []any{
		map[string]any{"stats_key": "quality", "op_type": "ADD", "weight": 0.5},
		map[string]any{"stats_key": "quality", "op_type": "DIV", "weight": 2},
	}}
	compared := map[string]struct {
		ours string
		own  args // of both
	}{
		"filters.reward_filter.RewardFilter":                  {"reward_filter", args{"threshold": 0.5}},
		"filters.reward_filter.RewardSTDFilter":               {"reward_std_filter", args{"threshold": 0.45}},
		"filters.reward_filter.DAPODynamicSamplingFilter":     {"dapo_dynamic_sampling", args{"correct_threshold": 0.5}},
		"filters.reward_filter.MaskResponseTruncatedOperator": {"mask_response_truncated", nil},
		"filters.reward_filter.InvalidRewardFilter":           {"invalid_reward_filter", nil},
		"mappers.pass_rate_calculator.PassRateCalculator":     {"pass_rate_calculator", nil},
		"mappers.reward_shaping_mapper.RewardShapingMapper":   {"reward_shaping_mapper", shaping},
	}
	for class, c := range compared {
		theirs, err := inPython(t, host, below+"."+class, c.own, section)
		if err != nil {
			t.Errorf("%s: %v", class, err)
			continue
		}
		ours, err := registry.Operators.Build(c.ours, c.own)
		if err != nil {
			t.Fatal(err)
		}
		got, m, err := theirs.Process(t.Context(), compatStep())
		if err != nil {
			t.Errorf("%s: %v", class, err)
			continue
		}
		want, n, err := ours.Process(t.Context(), compatStep())
		if err != nil {
			t.Fatal(err)
		}
		if a, b := kept(got), kept(want); a != b {
			t.Errorf("%s keeps\n%s, want\n%s", class, a, b)
		}
		for name, v := range n {
			if w, ok := m[name]; ok && math.Abs(v-w) > 1e-6 || !ok && v != 0 {
				t.Errorf("%s: metric %s is %v, want %v", class, name, w, v)
			}
		}
	}
	trinitytest.EveryClass(t, section["interpreter"].(string), below, slices.Collect(maps.Keys(compared)), map[string]string{
		"data_juicer_operator":                            "asks a service of Data-Juicer",
		"experience_operator.ExperienceOperator":          "abstract",
		"experience_operator.ExperienceOperatorV1":        "abstract; async operators are in TestOperatorsInPython",
		"experience_operator.ExperienceOperatorV1Wrapper": "makes an operator of one kind one of the other, which nothing needs here",
	})
}

// kept tells what is left of a step, with rewards and masks.
func kept(groups []trinity.Group) string {
	var b strings.Builder
	for _, e := range slices.Concat(groups...) {
		fmt.Fprintf(&b, "%s %.6f %v %v\n", e.ID, e.Reward.Value, e.Reward.Valid, e.Mask)
	}
	return b.String()
}

// hearing is a host that keeps what it is told.
type hearing struct {
	trinity.Host
	lines []string
}

func (h *hearing) Say(line string) { h.lines = append(h.lines, line) }

func TestWhatOperatorsInPythonLeaveOutIsSaidOnce(t *testing.T) {
	const nothing = "it leaves no token of a step to train on: it dropped all experiences, or every action_mask is 0"
	const bad = "the metric bad of an experience is no finite number, and is left out"
	for how, want := range map[string][]string{"none left": {bad, nothing}, "dropped": {nothing}} {
		host := &hearing{Host: trinitytest.Programs(t)}
		op, err := inPython(t, host, "own_operators.Wrong", args{"how": how}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, _, err := op.Process(t.Context(), pythonStep()); err != nil {
				t.Fatal(err)
			}
		}
		for i := range want {
			want[i] = "operator own_operators.Wrong: " + want[i]
		}
		if !slices.Equal(host.lines, want) {
			t.Errorf("%s: %q\nwant %q", how, host.lines, want)
		}
	}
}
