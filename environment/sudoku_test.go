package environment

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

const (
	puzzle9   = "530070000 600195000 098000060 800060003 400803001 700020006 060000280 000419005 000080079"
	solution9 = "534678912\n672195348\n198342567\n859761423\n426853791\n713924856\n961537284\n287419635\n345286179"
)

func TestSudokuConforms(t *testing.T) {
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{Row: map[string]any{"puzzle": puzzle9}},
		Act:  func(int, trinity.Observation) trinity.Action { return trinity.Action{Text: "12"} },
	}, open(t, "sudoku", map[string]any{"tries": 3}))
}

func TestSudokuJudges(t *testing.T) {
	for _, c := range []struct{ puzzle, reply, hears string }{
		{puzzle9, solution9, "Solved."},
		{puzzle9, "In 2 steps: ```\n" + solution9 + "\n```", "Solved."},
		{puzzle9, strings.Replace(solution9, "534", "543", 1), "Not solved: row 1, column 2 is 4."},
		{puzzle9, strings.Replace(solution9, "912", "921", 1), "Not solved: column 8 has 2 twice."},
		{puzzle9, strings.Replace(solution9, "912", "910", 1), "Not solved: row 1, column 9 is 0."},
		{puzzle9, "I give up.", "Not solved: the grid has 0 numbers, not 81."},
		{"1... .... .... ....", "1234 3412 2143 4321", "Solved."},
		{"1... .... .... ....", "1234 2341 3412 4123", "Not solved: box 1 has 2 twice."},
		{"1... .... .... ....", "1534 3412 2143 4321", "Not solved: row 1 has a 5, above 4."},
	} {
		env, _ := begin(t, "sudoku", nil, map[string]any{"puzzle": c.puzzle})
		out := step(t, env, c.reply)
		won := 0.0
		if c.hears == "Solved." {
			won = 1
		}
		if out.Messages[0].Content != c.hears || !out.Done || *out.Reward != won || out.Metrics["success"] != won {
			t.Errorf("%q: hears %q, %+v", c.reply, out.Messages[0].Content, out)
		}
	}
}

func TestSudokuGivesTries(t *testing.T) {
	env, first := begin(t, "sudoku", map[string]any{"tries": 2}, map[string]any{"puzzle": "1" + strings.Repeat(".", 15)})
	if !strings.HasSuffix(first.Messages[0].Content, "\n\n1000\n0000\n0000\n0000") {
		t.Errorf("asks %q", first.Messages[0].Content)
	}
	if out := step(t, env, "1"); out.Done || out.Reward != nil || out.State == first.State {
		t.Errorf("after one of two tries: %+v", out)
	}
	if out := step(t, env, "1"); !out.Done || *out.Reward != 0 {
		t.Errorf("after the last try: %+v", out)
	}
	if _, err := registry.Environments.Build("sudoku", map[string]any{"tries": 0}); err == nil {
		t.Error("no tries are accepted")
	}
	check := trinity.RequirementsOf(open(t, "sudoku", nil)).CheckTask
	for _, row := range []map[string]any{nil, {"puzzle": "123"}, {"puzzle": strings.Repeat("1", 16)}} {
		if err := check(&trinity.Task{Row: row}); err == nil {
			t.Errorf("row %v is accepted", row)
		}
	}
}
