package cli

import (
	"strings"
	"testing"
)

// A warm-up that has no time for one pass over the rows is a number of steps.
func TestWarmUpThatFitsNoPass(t *testing.T) {
	for _, c := range []struct {
		epochs, warmSteps, steps int
		factor                   float64
		want                     string
	}{
		{epochs: 4, steps: 80, factor: 0.5, want: "total_epochs: 2 #"},
		{epochs: 4, steps: 80, factor: 30, want: "total_epochs: 20 #"},
		{epochs: 4, steps: 80, factor: 0.2, want: "total_steps: 16 #"},
		{epochs: 1, steps: 80, factor: 0.001, want: "total_steps: 1 #"},
		{epochs: 1, warmSteps: 16, steps: 16, factor: 1.5, want: "total_steps: 24 #"},
	} {
		b := beginning{File: "f.yaml", Task: "demonstrations", recipe: recipe{Warms: true, Epochs: c.epochs, WarmSteps: c.warmSteps}}
		b.scaleWarm(c.steps, c.factor)
		text, err := b.render()
		if err != nil || !strings.Contains(string(text), "\n      "+c.want) {
			t.Errorf("%+v: %v\n%s", c, err, text)
		}
	}
}
