package advantage

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// inPython returns an advantage function that a host has opened.
func inPython(t *testing.T, host trinity.Host, class string, own, section args) trinity.Advantage {
	t.Helper()
	a, err := registry.Advantages.Build("python", trinitytest.PythonClass(t, class, own, section))
	if err == nil {
		err = a.(interface{ Open(trinity.Host) error }).Open(host)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// pythonBatch returns groups of random rollouts with all that a trainer may have computed.
func pythonBatch(seed uint64) (groups []trinity.Group) {
	r := rand.New(rand.NewPCG(seed, 5))
	for task := range 4 {
		var g trinity.Group
		for run := range 6 {
			prompt, n := 2, 3+r.IntN(6)
			e := &trinity.Experience{
				ID: trinity.ExperienceID{Step: 2, Task: strconv.Itoa(task), Run: run}, PromptLen: prompt, Temperature: 1,
				Reward: trinity.Reward{Value: float64(r.IntN(3)), Valid: true}, Info: map[string]any{"reward_baseline": 0.5},
			}
			for t := range prompt + n {
				e.Tokens, e.Mask = append(e.Tokens, int32(t)), append(e.Mask, t >= prompt)
				number := func(scale float64) float32 {
					if t < prompt {
						return 0
					}
					return float32(-scale * r.ExpFloat64())
				}
				e.Logprobs, e.Values, e.RefLogprobs = append(e.Logprobs, number(1)), append(e.Values, number(0.5)), append(e.RefLogprobs, number(1))
				e.TeacherLogprobs, e.Entropies = append(e.TeacherLogprobs, number(1)), append(e.Entropies, -number(1))
				e.Discriminators = append(e.Discriminators, number(0.3))
			}
			g = append(g, e)
		}
		groups = append(groups, g)
	}
	return groups
}

func TestAdvantagesInPython(t *testing.T) {
	host := trinitytest.Programs(t)
	for batch := 1; batch <= 2; batch++ {
		groups := pythonBatch(1)
		groups[1][2].Reward = trinity.InvalidReward("no number")
		groups[2][0].IsExpert = true
		want := map[string]float64{}
		for _, g := range groups {
			sum, n := 0.0, 0.0
			for _, e := range g {
				if e.Reward.Valid && !e.IsExpert {
					sum, n = sum+e.Reward.Value, n+1
				}
			}
			for _, e := range g {
				want[e.ID.String()] = 2 * (e.Reward.Value - sum/n)
			}
		}
		want[groups[2][0].ID.String()] = 0
		kept, m, err := inPython(t, host, "own_advantages.Centred", args{"scale": 2}, nil).Advantages(t.Context(), groups)
		if err != nil {
			t.Fatal(err)
		}
		if m["batches"] != float64(batch) || m["invalid_count"] != 1 || len(slices.Concat(kept...)) != 23 {
			t.Errorf("batch %d: metrics %v of %d experiences", batch, m, len(slices.Concat(kept...)))
		}
		for _, e := range slices.Concat(kept...) {
			for k, trained := range e.Mask {
				if trained && math.Abs(float64(e.Advantages[k])-want[e.ID.String()]) > 1e-6 {
					t.Fatalf("%s, token %d: %v, want %v", e.ID, k, e.Advantages[k], want[e.ID.String()])
				}
			}
		}
	}
	_, _, err := inPython(t, host, "own_advantages.forgets", nil, nil).Advantages(t.Context(), pythonBatch(1))
	if err == nil || err.Error() != "own_advantages.forgets gave experience 2/0/1/0 no advantages" {
		t.Error(err)
	}
}

// steppedBatch returns groups of rollouts of several steps, with the states that they were in.
func steppedBatch(seed uint64) (groups []trinity.Group) {
	r := rand.New(rand.NewPCG(seed, 6))
	for _, g := range pythonBatch(seed) {
		var steps trinity.Group
		for _, e := range g {
			for turn := range 1 + r.IntN(3) {
				step := *e
				step.ID.Turn = turn
				step.Info = map[string]any{"env_state_hash": fmt.Sprintf("%s %d", e.ID.Task, r.IntN(4)), "step_reward": r.Float64()}
				steps = append(steps, &step)
			}
		}
		groups = append(groups, steps)
	}
	return groups
}

// compatAdvantages are the advantages of Trinity-RFT and ours.
var compatAdvantages = map[string]struct {
	ours  string
	args  args // of both
	batch func(seed uint64) []trinity.Group
	needs trinity.Needs
	other string // metrics of this prefix count otherwise there
}{
	"grpo_advantage.GRPOGroupedAdvantage": {ours: "grpo", needs: trinity.Needs{Group: true}},
	"grpo_advantage.GRPOAdvantageFn":      {ours: "grpo", needs: trinity.Needs{Batch: true}},
	"opmd_advantage.OPMDGroupAdvantage":   {ours: "opmd", args: args{"tau": 0.5}, needs: trinity.Needs{Group: true}},
	"opmd_advantage.OPMDAdvantageFn":      {ours: "opmd", needs: trinity.Needs{Batch: true}},
	"rec_advantage.RECGroupedAdvantage": {
		ours: "rec", args: args{"std_normalize": true}, needs: trinity.Needs{Group: true}, other: "group_advantages/reward_std",
	},
	"asymre_advantage.ASYMREGroupAdvantage":       {ours: "asymre", needs: trinity.Needs{Group: true}},
	"asymre_advantage.ASYMREAdvantageFn":          {ours: "asymre", needs: trinity.Needs{Batch: true}},
	"reinforce_advantage.REINFORCEGroupAdvantage": {ours: "reinforce", needs: trinity.Needs{Group: true}},
	"rloo_advantage.RLOOAdvantageFn":              {ours: "rloo", needs: trinity.Needs{Batch: true}},
	"remax_advantage.REMAXAdvantageFn":            {ours: "remax", needs: trinity.Needs{Batch: true, GreedyReward: true}},
	"ppo_advantage.PPOAdvantageFn":                {ours: "ppo", needs: trinity.Needs{Batch: true, Values: true}},
	"reinforce_plus_plus_advantage.REINFORCEPLUSPLUSAdvantageFn": {
		ours: "reinforceplusplus", args: args{"gamma": 0.9}, needs: trinity.Needs{Batch: true},
	},
	"on_policy_distill_advantage.OnPolicyDistillAdvantage": {
		ours: "on_policy_distill", needs: trinity.Needs{Batch: true, Teacher: true}, other: "kl/",
	},
	"clipb_advantage.ClipBAdvantageFn": {
		ours: "clipb", args: args{"mu": 0.5}, needs: trinity.Needs{Batch: true, Entropies: true},
	},
	"clipv_advantage.ClipVAdvantageFn": {ours: "clipv", args: args{"mu": 0.5, "max_frac": 0.05},
		needs: trinity.Needs{Batch: true, Entropies: true, Discriminators: true}},
	"multi_step_grpo_advantage.StepWiseGRPOAdvantageFn": {
		ours: "step_wise_grpo", args: args{"enable_step_norm": true}, batch: steppedBatch,
	},
	"gigpo_advantage.GiGPOAdvantageFn": {
		ours: "gigpo", args: args{"fnorm": "std", "omega": 0.5, "gamma": 0.9}, batch: steppedBatch,
	},
}

// Advantages of Trinity-RFT, as they are, equal ours, with what they mask and their metrics.
func TestCompatAdvantages(t *testing.T) {
	t.Cleanup(bridge.Together())
	host := trinitytest.Programs(t)
	const below = "trinity.algorithm.advantage_fn"
	section := args{"interpreter": trinitytest.CompatPython(t)}
	for class, c := range compatAdvantages {
		theirs, ours := inPython(t, host, below+"."+class, c.args, section), made(t, c.ours, c.args)
		if needs := theirs.Needs(); fmt.Sprint(comparable(needs)) != fmt.Sprint(comparable(c.needs)) {
			t.Errorf("%s needs %+v, want %+v", class, needs, c.needs)
		}
		if c.batch == nil {
			c.batch = pythonBatch
		}
		for seed := range uint64(3) {
			got, m := perID(t, theirs, c.batch(seed))
			want, n := perID(t, ours, c.batch(seed))
			sameAdvantages(t, class, got, want)
			for name, v := range m {
				if w, ok := n[name]; ok && !alike(v, w) && (c.other == "" || !strings.HasPrefix(name, c.other)) {
					t.Errorf("%s: metric %s is %v, want %v", class, name, v, w)
				}
			}
		}
	}
	trinitytest.EveryClass(t, section["interpreter"].(string), below, slices.Collect(maps.Keys(compatAdvantages)), map[string]string{
		"jsd_advantage.JSDAdvantage":  "differs, see TestCompatJSD",
		"advantage_fn.AdvantageFn":    "abstract",
		"advantage_fn.GroupAdvantage": "abstract",
	})
	groups := pythonBatch(1)
	groups[1][1].Values = nil
	_, _, err := inPython(t, host, below+".ppo_advantage.PPOAdvantageFn", nil, section).Advantages(t.Context(), groups)
	if err == nil || !strings.HasPrefix(err.Error(), "experience 2/1/1/0 has 0 values for ") {
		t.Error(err)
	}
}

// The divergence of JSDAdvantage is that of its text, and not ours, which docs/reference/algorithms.md says.
func TestCompatJSD(t *testing.T) {
	section := args{"interpreter": trinitytest.CompatPython(t)}
	const class = "trinity.algorithm.advantage_fn.jsd_advantage.JSDAdvantage"
	theirs := inPython(t, trinitytest.Programs(t), class, args{"lambda_coef": 0.3, "kl_coef": 2}, section)
	if !theirs.Needs().Batch || !theirs.Needs().Teacher {
		t.Errorf("it needs %+v", theirs.Needs())
	}
	kept, _ := perID(t, theirs, pythonBatch(1))
	for id, e := range kept {
		for k, trained := range e.Mask {
			s, of := float64(e.Logprobs[k]), float64(e.TeacherLogprobs[k])
			mixture := math.Log(0.7*math.Exp(s) + 0.3*math.Exp(of))
			want := -2 * (0.3*(of-mixture) + 0.7*(s-mixture))
			if got := float64(e.Advantages[k]); trained && math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
				t.Fatalf("%s, token %d: %v, want %v", id, k, got, want)
			}
		}
	}
	if len(kept) != 24 {
		t.Errorf("%d experiences are left, want 24", len(kept))
	}
}

// comparable returns needs without functions.
func comparable(n trinity.Needs) trinity.Needs {
	n.PenalizeKL = nil
	return n
}

func alike(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(b)) }

// sameAdvantages compares what two functions have made of equal batches.
func sameAdvantages(t *testing.T, class string, got, want map[string]*trinity.Experience) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d experiences are left, want %d", class, len(got), len(want))
	}
	for id, w := range want {
		g := got[id]
		if g == nil || !slices.Equal(g.Mask, w.Mask) {
			t.Errorf("%s: %s has another mask", class, id)
			continue
		}
		for k, trained := range w.Mask {
			if !trained {
				continue
			}
			same := alike(float64(g.Advantages[k]), float64(w.Advantages[k]))
			if w.Returns != nil {
				same = same && alike(float64(g.Returns[k]), float64(w.Returns[k]))
			}
			if !same {
				t.Errorf("%s: %s, token %d: %v, want %v", class, id, k, g.Advantages[k], w.Advantages[k])
				break
			}
		}
	}
}

// perID returns the experiences that an advantage function keeps, and its metrics.
func perID(t *testing.T, a trinity.Advantage, groups []trinity.Group) (map[string]*trinity.Experience, trinity.Metrics) {
	t.Helper()
	kept, m, err := a.Advantages(t.Context(), groups)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*trinity.Experience{}
	for _, e := range slices.Concat(kept...) {
		out[e.ID.String()] = e
	}
	return out, m
}
