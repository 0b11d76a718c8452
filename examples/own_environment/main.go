// Command own_environment is trinity with an environment of its own.
package main

import (
	"context"
	"fmt"
	"unicode"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/command"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("corridor",
		"The policy reads where the exit is. A reply that begins with a letter is a step to the left, another one to the right.",
		func() trinity.EnvironmentOpener { return &Corridor{Steps: 4} })
}

// Corridor has an exit on one side, two steps away.
type Corridor struct {
	Steps int `yaml:"steps" doc:"replies at most"`
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (c *Corridor) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	return &walk{Corridor: c}, nil
}

type walk struct {
	*Corridor
	exit, taken int // steps to the exit, negative to the left; steps taken
}

// Reset implements [trinity.Environment]. Equal seeds begin equal episodes.
func (w *walk) Reset(_ context.Context, seed uint64) (trinity.Observation, error) {
	w.exit, w.taken = 4*int(seed%2)-2, 0
	return w.says(), nil
}

func (w *walk) says() trinity.Observation {
	text := fmt.Sprintf("%d to the %s", max(w.exit, -w.exit), map[bool]string{true: "left", false: "right"}[w.exit < 0])
	return trinity.Observation{Messages: []trinity.Message{{Role: "user", Content: text}}, State: text}
}

// Step implements [trinity.Environment].
func (w *walk) Step(_ context.Context, a trinity.Action) (trinity.Outcome, error) {
	step := 1
	if unicode.IsLetter([]rune(a.Text + " ")[0]) {
		step = -1
	}
	w.exit, w.taken = w.exit-step, w.taken+1
	reward := map[bool]float64{true: 1}[w.exit == 0]
	return trinity.Outcome{Observation: w.says(), Reward: &reward, Done: w.exit == 0 || w.taken == w.Steps}, nil
}

// Close implements [trinity.Environment].
func (w *walk) Close() error { return nil }

func main() { command.Main() }
