package environment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("number_guess",
		"The policy guesses a whole number from lowest to highest. After each wrong guess it reads < (the number is below the guess) or > "+
			"(above); after `guesses` of them it has lost. Reward: 1 or 0. The number is the task's reference answer, else it follows from the "+
			"seed. Metric: consistent, the share of the guesses that fit all hints so far.",
		func() trinity.EnvironmentOpener {
			return &numberGuess{Lowest: 1, Highest: 100, Guesses: 7, Ask: "Guess a number from {lowest} to {highest}."}
		})
}

// numberGuess is the game.
type numberGuess struct {
	Lowest  int    `yaml:"lowest" doc:"lowest number"`
	Highest int    `yaml:"highest" doc:"highest number"`
	Guesses int    `yaml:"guesses" range:"[1,)" doc:"guesses that the policy has"`
	Ask     string `yaml:"ask" doc:"first message to the policy; {lowest}, {highest} and {guesses} stand for the numbers"`
}

// Validate checks the arguments.
func (g *numberGuess) Validate() error {
	if g.Lowest >= g.Highest {
		return fmt.Errorf("highest: must be above lowest %d, got %d", g.Lowest, g.Highest)
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (g *numberGuess) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: func(t *trinity.Task) error {
		_, err := g.number(t, 0)
		return err
	}}
}

// number returns the number to guess.
func (g *numberGuess) number(t *trinity.Task, seed uint64) (int, error) {
	text := t.Truth()
	if text == "" {
		return g.Lowest + rand.New(rand.NewPCG(seed, 0)).IntN(g.Highest-g.Lowest+1), nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), ".0"))
	if err != nil || n < g.Lowest || n > g.Highest {
		return 0, fmt.Errorf("the number to guess is %q, want one from %d to %d", text, g.Lowest, g.Highest)
	}
	return n, nil
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (g *numberGuess) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	return &guessing{args: g, task: t}, nil
}

// guessing is one episode.
type guessing struct {
	inMemory
	args       *numberGuess
	task       *trinity.Task
	number     int
	from, to   int // numbers that fit the hints so far
	made       int // guesses
	consistent int // guesses that fit the hints before them
	heard      string
}

// Reset implements [trinity.Environment].
func (g *guessing) Reset(_ context.Context, seed uint64) (o trinity.Observation, err error) {
	g.from, g.to, g.made, g.consistent, g.heard = g.args.Lowest, g.args.Highest, 0, 0, ""
	g.number, err = g.args.number(g.task, seed)
	return g.says(g.args.Ask, "{lowest}", strconv.Itoa(g.args.Lowest), "{highest}", strconv.Itoa(g.args.Highest),
		"{guesses}", strconv.Itoa(g.args.Guesses)), err
}

// says returns what the policy reads. What it has heard so far is all that it can know.
func (g *guessing) says(text string, words ...string) trinity.Observation {
	return says(text, "guesses"+g.heard, words...)
}

// Step implements [trinity.Environment].
func (g *guessing) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	g.made++
	guess, unread := strconv.Atoi(strings.TrimSpace(a.Text))
	hint := "?"
	switch {
	case unread != nil:
	case guess == g.number:
		hint = ""
	case guess > g.number:
		hint = "<"
	default:
		hint = ">"
	}
	if unread == nil && g.from <= guess && guess <= g.to {
		g.consistent++
		switch hint {
		case "<":
			g.to = guess - 1
		case ">":
			g.from = guess + 1
		}
	}
	g.heard += fmt.Sprintf(" %s%s", hint, strings.TrimSpace(a.Text))
	out.Observation = g.says(hint)
	out.Metrics = map[string]float64{"consistent": float64(g.consistent) / float64(g.made)}
	if out.Done = hint == "" || g.made == g.args.Guesses; !out.Done {
		return out, nil
	}
	won := asNumber(hint == "")
	out.Reward, out.Parts = &won, map[string]float64{"won": won}
	return out, nil
}
