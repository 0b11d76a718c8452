package workflow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// actor is a policy that answers each prompt by a function.
type actor func(prompt string) string

func (a actor) Sample(_ context.Context, p trinity.Prompt, _ trinity.SamplingParams) ([]trinity.Completion, error) {
	tokens := plain{}.Encode(a(plain{}.Decode(p.Tokens)))[1:]
	return []trinity.Completion{{Tokens: tokens, Logprobs: make([]float32, len(tokens)), FinishReason: "stop"}}, nil
}

// packed returns a rollout of a pack whose rows have the seeds.
func packed(policy actor, rows ...map[string]any) *trinity.Rollout {
	t := &trinity.Task{ID: id.Task, Taskset: "lakes", Row: rows[0]}
	for i, row := range rows {
		t.Pack = append(t.Pack, &trinity.Task{ID: fmt.Sprint("lakes/", i), Taskset: "lakes", Index: i, Row: row})
	}
	m := &trinity.Model{Sampler: policy, Renderer: plain{}, ID: id}
	r := rollout(t, m, nil)
	r.Seed = 5
	return r
}

// A policy that writes down where a direction leads solves the later lakes of a pack: the directions are
// the same, whoever begins.
func TestAPackHandsOnHints(t *testing.T) {
	row := func(seed int) map[string]any {
		return map[string]any{"desc": []any{"SG"}, "seed": seed}
	}
	var prompts []string
	policy := func(prompt string) string {
		prompts = append(prompts, prompt)
		if strings.Contains(prompt, "The hints so far") {
			at := strings.LastIndex(prompt, "```Direction ")
			return "It led there.<hints>right is " + prompt[at+len("```Direction "):at+len("```Direction 1")] + "</hints>"
		}
		if i := strings.LastIndex(prompt, "right is "); i >= 0 {
			return "```Direction " + prompt[i+len("right is "):i+len("right is 1")] + "```"
		}
		return fmt.Sprintf("```Direction %d```", strings.Count(prompt, "assistant: ")%4+1)
	}
	args := map[string]any{"mapping_mode": "per_pack", "agent_max_steps": 6,
		"cod": map[string]any{"hint_penalty_coef": 0.25, "max_response_tokens_restraint": 77}}
	w := build(t, "cod_frozenlake_obscure_workflow", args)
	exps, err := w.Run(t.Context(), packed(policy, row(1), row(2), row(3)))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range exps {
		if err := e.Check(); err != nil || !e.Reward.Valid || e.TrainedTokens() == 0 || e.TrainedTokens() != e.ResponseLen() {
			t.Errorf("%v, %+v", err, e)
		}
		if got := e.Info["task_rewards"].([]float64); !slices.Equal(got, []float64{1, 1, 1}) || e.Info["taskset_id"] != "lakes" {
			t.Errorf("info %v", e.Info)
		}
		kind := fmt.Sprint(e.Info["exp_type"], e.Info["task_idx"], e.Info["hint_idx"])
		if len(kinds) == 0 || kinds[len(kinds)-1] != kind {
			kinds = append(kinds, kind)
		}
	}
	want := []string{"solve_task0 <nil>", "gen_hint<nil> 0", "solve_task1 <nil>", "gen_hint<nil> 1", "solve_task2 <nil>"}
	if !slices.Equal(kinds, want) {
		t.Errorf("the pack went %v, want %v", kinds, want)
	}
	last := exps[len(exps)-1]
	if n := exps[len(exps)-2]; n.Info["exp_type"] != "gen_hint" || last.Metrics["reward_pos_2"] != 1 || last.Metrics["task_reward"] != 1 {
		t.Errorf("the last task took more than one reply, %v", last.Metrics)
	}
	for _, words := range []string{"right is", "at most 77 tokens", "[assistant]", "Reward: 1.000"} {
		if !slices.ContainsFunc(prompts, func(p string) bool { return strings.Contains(p, words) }) {
			t.Errorf("no prompt has %q", words)
		}
	}
	again, err := w.Run(t.Context(), packed(policy, row(1), row(2), row(3)))
	if err != nil || len(again) != len(exps) || again[0].Response != exps[0].Response {
		t.Errorf("the same pack went otherwise: %v, %d experiences, want %d", err, len(again), len(exps))
	}
}

func TestHintsHaveARewardOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		reply string
		args  map[string]any
		want  float64
	}{
		{"<hints>go right</hints>", map[string]any{"hint_penalty_coef": 0.5}, 0},
		{"go right", map[string]any{"hint_penalty_coef": 0.5}, -0.5},
		{"<hints> </hints>", map[string]any{"hint_penalty_coef": 0.5}, -0.5},
		{"<hints>go right", map[string]any{"hint_penalty_coef": 0.5}, -0.5},
		{"<hints>12345</hints>", map[string]any{"hint_penalty_coef": 0.5, "len_zero_penalty": 10, "len_max_penalty": 30}, -0.25},
		{"<hints>12345</hints>", map[string]any{"hint_penalty_coef": 0.5, "len_max_penalty": 30, "len_min_penalty": 21}, -0.5},
	} {
		lake := map[string]any{"desc": []any{"SG"}}
		policy := func(prompt string) string {
			if strings.Contains(prompt, "The hints so far") {
				return c.reply
			}
			return "```Right```"
		}
		w := build(t, "cod_frozenlake_workflow", map[string]any{"cod": c.args})
		exps, err := w.Run(t.Context(), packed(policy, lake, lake))
		if err != nil || len(exps) != 3 || exps[1].Reward.Value != c.want || !exps[1].Reward.Valid {
			t.Errorf("%q: %v, %+v, want %g", c.reply, err, exps, c.want)
		}
	}
}

// A task that cannot be scored spoils its pack.
func TestAPackWithoutARewardIsNotLearnt(t *testing.T) {
	lake := map[string]any{"desc": []any{"SG"}}
	r := packed(func(string) string { return "```Right```<hints>x</hints>" }, lake, lake)
	r.Reward = &echo{err: fmt.Errorf("no verdict")}
	exps, err := build(t, "cod_frozenlake_workflow", nil).Run(t.Context(), r)
	if err != nil || len(exps) != 1 || exps[0].Reward.Valid ||
		!strings.Contains(exps[0].Reward.Reason, "task 1 of the pack, lakes/0: no verdict") ||
		exps[0].Info["judge_format_error_in_trajectory"] != true {
		t.Errorf("%v, %+v", err, exps)
	}
}

func TestPacksOfEachKind(t *testing.T) {
	control := map[string]any{"seed": 1, "x0": 0.0, "v0": 0.0, "x_target": 1.0, "v_target": 0.0, "horizon": 8, "control_penalty_coef": 0.03}
	for _, c := range []struct {
		name    string
		args    map[string]any
		row     map[string]any
		reply   string
		rewards string
	}{
		{"cod_frozenlake_workflow", map[string]any{"length_penalty_coef": 0.1, "len_zero_penalty": 1, "len_full_penalty": 2},
			map[string]any{"desc": []any{"SG"}}, "```Right```", "[0.89 0.89]"},
		{"cod_grid_navigation_workflow", nil, map[string]any{"seed": 1}, "```nowhere```", "[0 0]"},
		{"cod_random_alchemy_workflow", map[string]any{"scope": "per_pack"}, map[string]any{"seed": 1}, "```a```", "[0 0]"},
		{"cod_optimalcontrol_workflow", map[string]any{"include_previous_control_policy": true}, control, "```import os```", "[-0.1 -0.1]"},
	} {
		policy := func(prompt string) string {
			if strings.Contains(prompt, "The hints so far") {
				return "<hints>x</hints>"
			}
			return c.reply
		}
		exps, err := build(t, c.name, c.args).Run(t.Context(), packed(policy, c.row, c.row))
		if err != nil || len(exps) != 3 {
			t.Errorf("%s: %v, %d experiences", c.name, err, len(exps))
			continue
		}
		if got := fmt.Sprintf("%.2g", exps[0].Info["task_rewards"]); got != c.rewards {
			t.Errorf("%s: rewards %s, want %s", c.name, got, c.rewards)
		}
	}
	for name, args := range map[string]map[string]any{
		"cod_frozenlake_workflow":         {"cod": map[string]any{"activated_cod_methods": []any{"other"}}},
		"cod_frozenlake_obscure_workflow": {"mapping_mode": "none of these"},
		"cod_grid_navigation_workflow":    {"context_compression_mode": "remove_think"},
		"cod_random_alchemy_workflow":     {"update_context_impl": "pde_update_context"},
		"cod_optimalcontrol_workflow":     {"length_penalty_coef": 1},
		"cod_learn2ask_workflow":          {"train_mode": "x"},
	} {
		if _, err := registry.Workflows.Build(name, args); err == nil {
			t.Errorf("%s: %v is accepted", name, args)
		}
	}
	check := trinity.RequirementsOf(build(t, "cod_optimalcontrol_workflow", nil)).CheckTask
	if err := check(&trinity.Task{Row: map[string]any{"seed": 1}}); err == nil {
		t.Error("a row without a point is accepted")
	}
}

func TestOrdersOfDirections(t *testing.T) {
	seen := map[string]bool{}
	for i := range 24 {
		seen[strings.Join(orderOf(i), " ")] = true
	}
	if len(seen) != 24 || strings.Join(orderOf(0), " ") != "Down Right Up Left" || strings.Join(orderOf(23), " ") != "Left Up Right Down" ||
		strings.Join(orderOf(1), " ") != "Down Right Left Up" {
		t.Errorf("%d orders, the first %v, the last %v", len(seen), orderOf(0), orderOf(23))
	}
}
