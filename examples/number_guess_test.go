package examples

import (
	"fmt"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

const numberGuess = "number_guess/number_guess.yaml"

// A policy learns a game of several turns.
func TestNumberGuessLearns(t *testing.T) {
	trinitytest.Long(t, "trains for a minute", "environment", "workflow", "examples/number_guess")
	won := curve(runExample(t, numberGuess), "eval/games/won/mean@32")
	if first, last := won[0], last(won); last < 0.85 || last < first+0.25 {
		t.Errorf("games won rose from %.3f to %.3f, want at least 0.85 and 0.25 more", first, last)
	}
	publishes(t, "examples/number_guess", map[string][]float64{"seed 0 won": won})
}

// The policy learns with three seeds, and not in the controls. With -update the test writes what was
// measured into the documents.
func TestNumberGuessResults(t *testing.T) {
	trinitytest.TooLong(t, "trains for many minutes")
	t.Chdir("..")
	values := map[string][]float64{}
	run := func(name string, overrides ...string) (first, end float64) {
		records := runExampleIn(t, t.TempDir(), numberGuess, overrides...)
		won := curve(records, "eval/games/won/mean@32")
		values[name+" won"], values[name+" consistent"] = won, curve(records, "eval/games/consistent/mean@32")
		return won[0], last(won)
	}
	for seed := range 3 {
		if first, end := run(fmt.Sprint("seed ", seed), fmt.Sprint("seed=", seed)); end < 0.85 || end < first+0.25 {
			t.Errorf("seed %d: games won rose from %.3f to %.3f, want at least 0.85 and 0.25 more", seed, first, end)
		}
	}
	for name, override := range quickstartControls {
		if first, end := run(name, override); end > first+0.1 {
			t.Errorf("%s: games won rose from %.3f to %.3f, and there was nothing to learn from", name, first, end)
		}
	}
	hold(t, "examples/number_guess", results{Values: values})
}

func numberGuessTable(r results) map[string]string {
	table := measuredAt(r.Commit) + "| run | games won | guesses that fit the hints |\n|---|---|---|\n"
	for _, name := range []string{"seed 0", "seed 1", "seed 2", "learning rate 0", "shuffled rewards"} {
		table += fmt.Sprintf("| %s | %s | %s |\n", name, change(r.Values[name+" won"]), change(r.Values[name+" consistent"]))
	}
	return map[string]string{"games": table}
}
