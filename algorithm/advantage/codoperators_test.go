package advantage

import (
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// The operator computes what the advantage function does, and the returns become rewards.
func TestCoDOperators(t *testing.T) {
	pack := func() trinity.Group {
		var g trinity.Group
		for run, rewards := range [][]any{{1.0, 0.0}, {0.0, 0.0}} {
			for k := range rewards {
				g = append(g, step(run, k, rewards[k].(float64), args{"exp_type": "solve_task", "task_idx": k, "task_rewards": rewards}))
			}
		}
		return g
	}
	causal := args{"iterative_hint_e2e_causal": true}
	op, err := registry.Operators.Build("cod_advantage_fn", causal)
	if err != nil {
		t.Fatal(err)
	}
	groups, metrics, err := op.Process(t.Context(), []trinity.Group{pack()})
	if err != nil || len(groups) != 1 || len(groups[0]) != 4 || metrics["invalid_count"] != 0 {
		t.Fatal(groups, metrics, err)
	}
	want := perRollout(t, "cod", causal, pack())
	returns, _ := registry.Operators.Build("cod_overwrite_reward_with_returns")
	if groups, _, err = returns.Process(t.Context(), groups); err != nil {
		t.Fatal(err)
	}
	for i, e := range groups[0] {
		if got := float64(e.Advantages[slices.Index(e.Mask, true)]); got != want[0][i] {
			t.Errorf("experience %d: advantage %g, want %g", i, got, want[0][i])
		}
		if g := []float64{0.5, 0, 0, 0}[i]; e.Reward.Value != g || !e.Reward.Valid {
			t.Errorf("experience %d: reward %+v, want %g", i, e.Reward, g)
		}
	}
	if _, _, err := returns.Process(t.Context(), []trinity.Group{pack()}); err == nil {
		t.Error("rewards without returns are replaced")
	}
	if _, err := registry.Operators.Build("cod_advantage_fn", args{"e2e_causal_returns_style": "sum"}); err == nil {
		t.Error("an unknown style is accepted")
	}
}
