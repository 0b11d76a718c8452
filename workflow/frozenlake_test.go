package workflow

import (
	"testing"

	"github.com/trinity-go/trinity"
	_ "github.com/trinity-go/trinity/environment"
	"github.com/trinity-go/trinity/registry"
)

// The rows and arguments are those of Trinity-RFT's example.
func TestFrozenLakeWorkflowWalksOnMapsOfTrinityRFT(t *testing.T) {
	row := map[string]any{"size": 4, "p": 0.7, "seed": 42, "index": 0, "uid": "42_4_0.7"} // starts to the right of the goal
	for _, c := range []struct {
		args    map[string]any
		says    string
		reward  float64
		replies float64
		cut     trinity.Truncation
	}{
		{map[string]any{"env_max_steps": 8, "agent_max_steps": 10, "is_slippery": false}, "```Left```", 1, 1, trinity.NotTruncated},
		{nil, "```Right```", 0, 10, trinity.TurnsTruncated},
		{map[string]any{"agent_max_steps": 3}, "```Right```", 0, 3, trinity.TurnsTruncated},
		{map[string]any{"max_turns": 2}, "Left, perhaps.", 0, 2, trinity.TurnsTruncated},
		{map[string]any{"desc": []string{"SH", "FG"}}, "```Right```", 0, 1, trinity.NotTruncated},
		{map[string]any{"environment_args": map[string]any{"unread_reward": -1, "max_steps": 1}}, "?", -1, 1, trinity.TurnsTruncated},
	} {
		r := rollout(&trinity.Task{ID: id.Task, Row: row}, model(&parrot{says: c.says}), nil)
		exps, err := build(t, "frozen_lake_workflow", c.args).Run(t.Context(), r)
		if err != nil || len(exps) != 1 {
			t.Fatal(c.args, err, len(exps))
		}
		e := exps[0]
		if !e.Reward.Valid || e.Reward.Value != c.reward || e.Metrics["turns"] != c.replies || e.Metrics["success"] != max(0, c.reward) ||
			e.Truncated != c.cut {
			t.Errorf("%v: %+v, %v, %q", c.args, e.Reward, e.Metrics, e.Truncated)
		}
	}
	for _, args := range []map[string]any{
		{"env_max_steps": 0}, {"agent_max_steps": 0}, {"desc": []string{"S"}}, {"environment_args": map[string]any{"x": 1}},
	} {
		if _, err := registry.Workflows.Build("frozen_lake_workflow", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestSudokuWorkflowAsksForTheRowsPuzzle(t *testing.T) {
	row := map[string]any{"puzzle": "1... .... .... ....", "solution": "1234341221434321"}
	for says, want := range map[string]float64{"1234341221434321": 1, "1234": 0} {
		r := rollout(&trinity.Task{ID: id.Task, Row: row}, model(&parrot{says: says}), nil)
		exps, err := build(t, "sudoku_workflow", nil).Run(t.Context(), r)
		if err != nil || len(exps) != 1 || !exps[0].Reward.Valid || exps[0].Reward.Value != want {
			t.Errorf("%q: %v, %+v", says, err, exps)
		}
	}
}
