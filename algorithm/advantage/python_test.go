package advantage

import (
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
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
	bridge.Allow(func(string) {})
	if _, err := exec.LookPath("python3"); err != nil {
		trinitytest.Missing(t, "there is no python3")
	}
	dir, err := filepath.Abs("testdata/python")
	if err != nil {
		t.Fatal(err)
	}
	python := args{"path": []any{dir}}
	for key, value := range section {
		python[key] = value
	}
	if own == nil {
		own = args{}
	}
	a, err := registry.Advantages.Build("python", map[string]any{"class": class, "args": own, "python": python})
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

// Advantages of Trinity-RFT, as they are, equal ours.
func TestCompatAdvantages(t *testing.T) {
	host := trinitytest.Programs(t)
	section := args{"interpreter": trinitytest.CompatPython(t)}
	for name, class := range map[string]string{
		"grpo": "grpo_advantage.GRPOGroupedAdvantage", "opmd": "opmd_advantage.OPMDGroupAdvantage", "rec": "rec_advantage.RECGroupedAdvantage",
		"asymre": "asymre_advantage.ASYMREGroupAdvantage", "rloo": "rloo_advantage.RLOOAdvantageFn", "ppo": "ppo_advantage.PPOAdvantageFn",
		"on_policy_distill": "on_policy_distill_advantage.OnPolicyDistillAdvantage",
	} {
		theirs := inPython(t, host, "trinity.algorithm.advantage_fn."+class, nil, section)
		ours := made(t, name, nil)
		if theirs.Needs().Batch != (name == "ppo" || name == "rloo" || name == "on_policy_distill") || theirs.Needs().Values != (name == "ppo") ||
			theirs.Needs().Teacher != (name == "on_policy_distill") {
			t.Errorf("%s needs %+v", name, theirs.Needs())
		}
		for seed := range uint64(3) {
			got, want := perID(t, theirs, pythonBatch(seed)), perID(t, ours, pythonBatch(seed))
			if len(got) != len(want) {
				t.Errorf("%s: %d experiences are left, want %d", name, len(got), len(want))
			}
			for id, w := range want {
				for k, v := range got[id] {
					if math.Abs(float64(v)-float64(w[k])) > 1e-6*(1+math.Abs(float64(w[k]))) {
						t.Errorf("%s: %s, token %d: %v, want %v", name, id, k, v, w[k])
						break
					}
				}
			}
		}
	}
	groups := pythonBatch(1)
	groups[1][1].Values = nil
	_, _, err := inPython(t, host, "trinity.algorithm.advantage_fn.ppo_advantage.PPOAdvantageFn", nil, section).Advantages(t.Context(), groups)
	if err == nil || !strings.HasPrefix(err.Error(), "experience 2/1/1/0 has 0 values for ") {
		t.Error(err)
	}
}

func perID(t *testing.T, a trinity.Advantage, groups []trinity.Group) map[string][]float32 {
	t.Helper()
	kept, _, err := a.Advantages(t.Context(), groups)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float32{}
	for _, e := range slices.Concat(kept...) {
		out[e.ID.String()] = e.Advantages
	}
	return out
}
