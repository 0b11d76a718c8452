package environment

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestEnvironmentsOfGymnasiumConform(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    map[string]any
		actions string
	}{
		{"frozen_lake", map[string]any{"map_name": "generated", "size": 5, "max_steps": 20}, "Down Right what? Left"},
		{"cliff_walking", map[string]any{"is_slippery": true}, "Up Right"},
		{"taxi", map[string]any{"is_rainy": true, "fickle_passenger": true}, "North Pickup West Dropoff South East"},
		{"blackjack", nil, "Hit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			actions := strings.Fields(c.actions)
			trinitytest.Environment(t, trinitytest.EnvironmentOptions{
				Task: &trinity.Task{},
				Act: func(i int, _ trinity.Observation) trinity.Action {
					return trinity.Action{Text: actions[i%len(actions)]}
				},
			}, open(t, c.name, c.args))
		})
	}
}

// begin opens an environment and begins an episode.
func begin(t *testing.T, name string, args, row map[string]any) (trinity.Environment, trinity.Observation) {
	t.Helper()
	env, err := open(t, name, args).OpenEnvironment(t.Context(), &trinity.Task{Row: row})
	if err != nil {
		t.Fatal(err)
	}
	first, err := env.Reset(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return env, first
}

func step(t *testing.T, env trinity.Environment, text string) trinity.Outcome {
	t.Helper()
	out, err := env.Step(t.Context(), trinity.Action{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFrozenLakeSpeaks(t *testing.T) {
	env, first := begin(t, "frozen_lake", map[string]any{"is_slippery": false, "max_steps": 7}, nil)
	if ask := first.Messages[0].Content; !strings.Contains(ask, "one of Left, Down, Right and Up between") ||
		!strings.HasSuffix(ask, "You have 7 steps.\n\nP _ _ _\n_ O _ O\n_ _ _ O\nO _ _ G") || strings.Contains(ask, "slip") {
		t.Errorf("asks %q", ask)
	}
	out := step(t, env, "perhaps ```fly```")
	if said := out.Messages[0].Content; said != unread+"\nP _ _ _\n_ O _ O\n_ _ _ O\nO _ _ G\nSteps left: 6" || out.Metrics["valid"] != 0 {
		t.Errorf("answers %q, %v", said, out.Metrics)
	}
	for _, action := range strings.Fields("down D ```RIGHT``` Right Down") {
		out = step(t, env, action)
	}
	if out.State != "SFFF/FHFH/FFFH/HFFG 14" || out.Done || out.Messages[0].Content != "_ _ _ _\n_ O _ O\n_ _ _ O\nO _ P G\nSteps left: 1" {
		t.Errorf("%+v", out)
	}
	if out = step(t, env, "Right."); !out.Done || out.Truncated || *out.Reward != 1 ||
		out.Metrics["success"] != 1 || out.Metrics["valid"] != 6.0/7 {
		t.Errorf("at the goal: %+v", out)
	}
	env, _ = begin(t, "frozen_lake", map[string]any{"is_slippery": false, "max_steps": 1}, nil)
	if out = step(t, env, "up"); out.Done || !out.Truncated {
		t.Errorf("after the last step: %+v", out)
	}
}

func TestFrozenLakeReadsItsRow(t *testing.T) {
	random := map[string]any{"random_start": true, "path_limit": 8}
	for _, c := range []struct {
		args, row map[string]any
		want      string
	}{
		{random, map[string]any{"size": 4.0, "p": 0.7, "seed": 42.0, "index": 0.0}, "FFFF/FHHF/HHFF/FFGS 15"},
		{nil, map[string]any{"map_name": "8x8"}, strings.Join(lakes["8x8"], "/") + " 0"},
		{nil, map[string]any{"desc": []any{"FS", "GH"}}, "FS/GH 1"},
	} {
		if _, first := begin(t, "frozen_lake", c.args, c.row); first.State != c.want {
			t.Errorf("row %v: %q, want %q", c.row, first.State, c.want)
		}
	}
	check := trinity.RequirementsOf(open(t, "frozen_lake", nil)).CheckTask
	for _, row := range []map[string]any{
		{"size": 1.0}, {"size": "four"}, {"p": 2.0}, {"seed": -1.0}, {"map_name": "5x5"}, {"desc": []any{"SF", "G"}}, {"desc": []any{"SF"}},
	} {
		if err := check(&trinity.Task{Row: row}); err == nil {
			t.Errorf("row %v is accepted", row)
		}
	}
}

// A map that hardly exists ends with the context, and not never.
func TestFrozenLakeGivesUpWithItsContext(t *testing.T) {
	opener := open(t, "frozen_lake", map[string]any{"map_name": "generated", "size": 64, "p": 0.1})
	env, err := opener.OpenEnvironment(t.Context(), &trinity.Task{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := env.Reset(ctx, 1); err == nil || !strings.Contains(err.Error(), "raise p") {
		t.Errorf("%v", err)
	}
}

func TestEnvironmentsOfGymnasiumShowTheirState(t *testing.T) {
	for name, want := range map[string]string{
		"cliff_walking": "_ _ _ _ _ _ _ _ _ _ _ _\n_ _ _ _ _ _ _ _ _ _ _ _\n_ _ _ _ _ _ _ _ _ _ _ _\nP C C C C C C C C C C G",
		"taxi":          "|Y| : |B: |\n+---------+",
		"blackjack":     "Your cards: ",
	} {
		_, first := begin(t, name, nil, nil)
		if ask := first.Messages[0].Content; !strings.Contains(ask, want) || strings.Contains(ask, "{") {
			t.Errorf("%s asks %q", name, ask)
		}
	}
}

func TestAReplyWithoutAnActionHasItsPrice(t *testing.T) {
	for name, want := range map[string]float64{"frozen_lake": 0, "cliff_walking": -1, "taxi": -10, "blackjack": -1} {
		env, first := begin(t, name, nil, nil)
		out := step(t, env, "I do not know.")
		if *out.Reward != want || out.Done != (name == "blackjack") || out.State != first.State {
			t.Errorf("%s: %+v, want reward %g", name, out, want)
		}
	}
}

func TestEnvironmentsOfGymnasiumRefuse(t *testing.T) {
	for name, refused := range map[string][]map[string]any{
		"frozen_lake": {{"map_name": "4"}, {"size": 65}, {"p": 0}, {"success_rate": 1.5}, {"path_limit": -1}, {"max_steps": 0}, {"ask": ""},
			{"desc": []string{"SX", "FG"}}},
		"taxi":          {{"rainy_probability": 2}, {"fickle_probability": -1}, {"max_steps": -3}},
		"cliff_walking": {{"tell": ""}},
	} {
		for _, args := range refused {
			if _, err := registry.Environments.Build(name, args); err == nil {
				t.Errorf("%s: %v is accepted", name, args)
			}
		}
	}
}

func TestChosen(t *testing.T) {
	for reply, want := range map[string]int{
		"Left": 0, " right.\n": 2, "u": 3, "**down**": 1, "I say ```up``` or ```left```": 0, "```up``` and then ``` ": 3, "go left": -1, "": -1,
		"``````": -1, "```left": -1,
	} {
		if got := chosen(reply, []string{"Left", "Down", "Right", "Up"}); got != want {
			t.Errorf("%q: %d, want %d", reply, got, want)
		}
	}
	if got := chosen("p", []string{"Pickup", "Push"}); got != -1 {
		t.Errorf("an ambiguous letter is read as %d", got)
	}
}
