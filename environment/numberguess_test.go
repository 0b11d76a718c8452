package environment

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func open(t *testing.T, name string, args map[string]any) trinity.EnvironmentOpener {
	t.Helper()
	o, err := registry.Environments.Build(name, args)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestNumberGuessConforms(t *testing.T) {
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{},
		Act:  func(i int, _ trinity.Observation) trinity.Action { return trinity.Action{Text: fmt.Sprint(10 * i)} },
	}, open(t, "number_guess", nil))
}

func TestNumberGuessFollowsItsRules(t *testing.T) {
	task := &trinity.Task{Row: map[string]any{"n": 5}, Format: trinity.TaskFormat{ResponseKey: "n"}}
	for _, c := range []struct {
		guesses, hears string
		reward         float64 // NaN: not yet
		consistent     float64
	}{
		{"5", "", 1, 1},
		{"4 6 5", "> < ", 1, 1},
		{"4 3", "> >", math.NaN(), 0.5},
		{"four 5", "? ", 1, 0.5},
		{"7 1 9", "< > <", 0, 2.0 / 3},
	} {
		env, err := open(t, "number_guess", map[string]any{"highest": 9, "guesses": 3}).OpenEnvironment(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		first, err := env.Reset(t.Context(), 1)
		if err != nil || first.Messages[0].Content != "Guess a number from 1 to 9." {
			t.Errorf("%v, asked %q", err, first.Messages)
		}
		var heard []string
		var last trinity.Outcome
		for _, g := range strings.Fields(c.guesses) {
			if last, err = env.Step(t.Context(), trinity.Action{Text: g + " "}); err != nil {
				t.Fatal(err)
			}
			heard = append(heard, last.Messages[0].Content)
		}
		if got := strings.Join(heard, " "); got != c.hears {
			t.Errorf("%s: heard %q, want %q", c.guesses, got, c.hears)
		}
		if last.Done == math.IsNaN(c.reward) || last.Done && *last.Reward != c.reward || last.Metrics["consistent"] != c.consistent {
			t.Errorf("%s: %+v, want reward %v and consistent %v", c.guesses, last, c.reward, c.consistent)
		}
	}
}

func TestNumberGuessRefusesWhatItCannotPlay(t *testing.T) {
	for _, args := range []map[string]any{{"lowest": 4, "highest": 4}, {"guesses": 0}} {
		if _, err := registry.Environments.Build("number_guess", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	check := trinity.RequirementsOf(open(t, "number_guess", nil)).CheckTask
	for truth, ok := range map[any]bool{nil: true, 5: true, "100": true, 0: false, 101: false, "five": false} {
		task := &trinity.Task{Row: map[string]any{"n": truth}, Format: trinity.TaskFormat{ResponseKey: "n"}}
		if err := check(task); (err == nil) != ok {
			t.Errorf("number %v: %v", truth, err)
		}
	}
}
