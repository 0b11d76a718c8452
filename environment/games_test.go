package environment

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestGamesConform(t *testing.T) {
	for _, c := range []struct {
		name string
		args map[string]any
		act  func(i int, seen trinity.Observation) string
	}{
		{"countdown", nil, func(_ int, seen trinity.Observation) string { // the first two numbers, or nothing
			var a, b int
			_, _ = fmt.Sscanf(seen.State, "%d, %d", &a, &b)
			return fmt.Sprintf("%d + %d", a, b)
		}},
		{"gomoku", map[string]any{"size": 5}, func(i int, seen trinity.Observation) string {
			cell := strings.IndexByte(seen.State, '.')
			return fmt.Sprintf("%d %d", cell/5+1, cell%5+1)
		}},
		{"grid_navigation", map[string]any{"view": 2, "max_steps": 12}, func(i int, _ trinity.Observation) string {
			return []string{"Down", "Right", "what?", "Up"}[i%4]
		}},
		{"cod_grid_navigation", nil, func(_ int, seen trinity.Observation) string { // to and fro
			var at int
			_, _ = fmt.Sscan(seen.State, &at)
			return []string{"0, 0", "0, 1"}[at%2]
		}},
		{"cod_random_alchemy", map[string]any{"max_rounds": 5}, func(_ int, seen trinity.Observation) string {
			_, have, _ := strings.Cut(seen.Messages[0].Content, "You have: ")
			first, _, _ := strings.Cut(have, ",")
			return first + " + " + first
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			trinitytest.Environment(t, trinitytest.EnvironmentOptions{
				Task: &trinity.Task{},
				Act:  func(i int, seen trinity.Observation) trinity.Action { return trinity.Action{Text: c.act(i, seen)} },
			}, open(t, c.name, c.args))
		})
	}
}

// episodeOf plays replies and returns what the policy heard and the last outcome.
func episodeOf(t *testing.T, env trinity.Environment, replies ...string) (heard []string, last trinity.Outcome) {
	t.Helper()
	for _, reply := range replies {
		last = step(t, env, reply)
		heard = append(heard, last.Messages[0].Content)
	}
	return heard, last
}

func TestCountdownFollowsItsRules(t *testing.T) {
	row := map[string]any{"numbers": []any{3.0, 5.0, 5.0}, "target": 30.0}
	for _, c := range []struct {
		replies []string
		last    string
		reward  float64 // -1: not yet
	}{
		{[]string{"```5 * 5```", "25 + 3"}, "Left: 28. The target is 30.", 0},
		{[]string{"5 * 5 = 25"}, "Left: 3, 25. The target is 30.", -1},
		{[]string{"3 + 3"}, "Not done: 3 + 3 needs numbers that are left.\nLeft: 3, 5, 5. The target is 30.", -1},
		{[]string{"5 / 3"}, "Not done: 5 / 3 is no whole number.\nLeft: 3, 5, 5. The target is 30.", -1},
		{[]string{"5 / 5", "3 - 1 = 1"}, "Not done: 3 - 1 is 2.\nLeft: 3, 1. The target is 30.", -1},
		{[]string{"3 - 5", "-2 * 5"}, "Left: -10. The target is 30.", 0},
		{[]string{"what", "5 + 5", "3 * 10 "}, "Left: 30. The target is 30.", 1},
		{[]string{"1 + 1", "2 * 2", "3 * 3 * 3"},
			"Not done: the reply is no step of two numbers and one of + - * / between them.\nLeft: 3, 5, 5. The target is 30.", 0},
	} {
		env, _ := begin(t, "countdown", nil, row)
		heard, out := episodeOf(t, env, c.replies...)
		if got := heard[len(heard)-1]; got != c.last {
			t.Errorf("%q: hears %q, want %q", c.replies, got, c.last)
		}
		if out.Done != (c.reward >= 0) || out.Done && *out.Reward != c.reward {
			t.Errorf("%q: %+v, want reward %g", c.replies, out, c.reward)
		}
	}
	check := trinity.RequirementsOf(open(t, "countdown", nil)).CheckTask
	for _, row := range []map[string]any{{"target": 3}, {"numbers": []any{1}, "target": 1}, {"numbers": "1 2", "target": 3}} {
		if err := check(&trinity.Task{Row: row}); err == nil {
			t.Errorf("row %v is accepted", row)
		}
	}
}

// A drawn target can be reached: every sequence of steps is tried.
func TestCountdownDrawsWhatCanBeSolved(t *testing.T) {
	var solves func(left []int, target int) bool
	solves = func(left []int, target int) bool {
		if len(left) == 1 {
			return left[0] == target
		}
		for i := range left {
			for j := range left {
				for _, operator := range []byte("+-*/") {
					if result, err := combined(left[i], left[j], operator); i != j && err == nil {
						next := []int{result}
						for k, n := range left {
							if k != i && k != j {
								next = append(next, n)
							}
						}
						if solves(next, target) {
							return true
						}
					}
				}
			}
		}
		return false
	}
	for seed := range uint64(20) {
		env, _ := begin(t, "countdown", nil, nil)
		if _, err := env.Reset(t.Context(), seed); err != nil {
			t.Fatal(err)
		}
		if c := env.(*counting); len(c.left) != 4 || !solves(c.left, c.target) {
			t.Errorf("seed %d: nothing leads from %v to %d", seed, c.left, c.target)
		}
	}
}

func TestGomokuFollowsItsRules(t *testing.T) {
	board := func(env trinity.Environment, rows string) {
		env.(*placing).board = []byte(strings.ReplaceAll(rows, " ", ""))
	}
	for _, c := range []struct {
		rows, reply, hears string
		reward             float64 // -1: not yet
	}{
		{"XX. OO. ...", "1 3", "You have won.", 1},
		{"XX. OO. ...", "3 1", "I play 2 3. You have lost.", 0}, // it completes its line first
		{"X.. ... O..", "```1, 2```", "I play 1 3.", -1},        // it blocks
		{"XOX XOO O.X", "3 2", "The board is full.", 0.5},
		{"XOX XOO .OX", "3 1", "You have won.", 1}, // a column
		{"OX. .X. ..O", "1 1", "That is no move: name the row and the column of an empty field.", -1},
		{"... ... ...", "4 1", "That is no move: name the row and the column of an empty field.", -1},
		{"X.. .X. OO.", "3 3", "You have won.", 1}, // a diagonal
		{"O.X .X. .O.", "3 1", "You have won.", 1}, // the other one
	} {
		env, _ := begin(t, "gomoku", map[string]any{"size": 3, "line": 3, "tell": "{moves}"}, nil)
		board(env, c.rows)
		out := step(t, env, c.reply)
		if got := out.Messages[0].Content; got != c.hears || out.Done != (c.reward >= 0) || out.Done && *out.Reward != c.reward {
			t.Errorf("%s, %q: hears %q, %+v; want %q, %g", c.rows, c.reply, got, out, c.hears, c.reward)
		}
	}
	env, _ := begin(t, "gomoku", map[string]any{"size": 5, "line": 3, "tell": "{moves}"}, nil)
	board(env, "XOO.X ..... .XX.. ..... .....")
	if out := step(t, env, "5 5"); out.Messages[0].Content != "I play 1 4. You have lost." {
		t.Errorf("hears %q where the opponent can win", out.Messages[0].Content)
	}
	env, _ = begin(t, "gomoku", map[string]any{"tries": 2}, nil)
	if _, out := episodeOf(t, env, "I think", "0 0"); !out.Done || *out.Reward != 0 || out.Metrics["valid"] != 0 {
		t.Errorf("after the last try: %+v", out)
	}
	for _, args := range []map[string]any{{"size": 2}, {"line": 10}, {"opponent": "strong"}, {"tries": 0}} {
		if _, err := registry.Environments.Build("gomoku", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestGridNavigationFollowsItsRules(t *testing.T) {
	row := map[string]any{"map": []any{"S#__", "___G"}}
	env, first := begin(t, "grid_navigation", map[string]any{"view": 1, "step_reward": -0.25}, row)
	if got := first.Messages[0].Content; !strings.HasSuffix(got, "\n\nP # ? ?\n_ _ ? ?") || !strings.Contains(got, "at 2, 4 (row, column)") {
		t.Errorf("asks %q", got)
	}
	if out := step(t, env, "Right"); out.State != first.State || *out.Reward != -0.25 {
		t.Errorf("into a wall: %+v", out)
	}
	heard, out := episodeOf(t, env, "down", "```Right```", "right", "R")
	if heard[1] != "_ # _ ?\n_ P _ ?" || !out.Done || *out.Reward != 0.75 || out.Metrics["success"] != 1 {
		t.Errorf("heard %q, %+v", heard, out)
	}
	check := trinity.RequirementsOf(open(t, "grid_navigation", nil)).CheckTask
	for _, rows := range [][]any{{"S#G"}, {"SG", "___"}, {"S_"}, {"SxG"}} {
		if err := check(&trinity.Task{Row: map[string]any{"map": rows}}); err == nil {
			t.Errorf("map %v is accepted", rows)
		}
	}
}
