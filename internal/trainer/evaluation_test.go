package trainer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// The trainer measures held-out data before the first step, after every Interval steps and at the
// end. It measures all of it at once and learns nothing from it.
func TestHeldOutDataIsMeasured(t *testing.T) {
	for _, microTokens := range []int{2, 1000} {
		var steps []string
		o, b, _ := newOptions(t, 5, new([]int64))
		engine := &counting{Bandit: b}
		var losses []float64
		o.Policy.Engine, o.Reference, o.TotalSteps, o.MicroTokens = engine, true, 5, microTokens
		probing := &pairing{probes: func(whole []*trinity.Experience) []*trinity.Experience { return whole[:1] }}
		o.Evaluation = Evaluation{
			HeldOut: []HeldOut{{"good", reinforce{}, scored(6)[1:2]}, {"both", probing, scored(6)}}, Interval: 2, OnStartup: true,
		}
		o.Recorder = recorder{log: func(step int64, m trinity.Metrics) {
			if loss, ok := m["eval/good/final_loss"]; ok {
				steps, losses = append(steps, fmt.Sprint(step)), append(losses, loss)
				if _, ok := m["eval/both/final_loss"]; !ok || m["time/eval"] <= 0 || (m["actor/lr"] > 0) != (step > 0) {
					t.Errorf("step %d: %v", step, m)
				}
			}
		}}
		if err := New(*o).Run(t.Context(), t.Context()); err != nil {
			t.Fatal(err)
		}
		falling := slices.IsSortedFunc(losses, func(a, b float64) int { return int(max(-1, min(1, 1e9*(b-a)))) })
		if got := strings.Join(steps, " "); got != "0 2 4 5" || !falling || losses[3] == losses[0] {
			t.Errorf("losses %v at steps %s, want falling losses at steps 0 2 4 5", losses, got)
		}
		if want := 5*8 + 1 + 6; engine.sequences != want { // later evaluations reuse the log-probabilities of the first
			t.Errorf("the reference computed %d sequences, want %d", engine.sequences, want)
		}
		if got := probing.seen[0]; got != "probes of 6" {
			t.Errorf("the loss first got %s, want probes of 6", got)
		}
		alone, other, _ := newOptions(t, 5, new([]int64))
		alone.MicroTokens = microTokens
		if err := New(*alone).Run(t.Context(), t.Context()); err != nil || !slices.Equal(other.Weights, b.Weights) {
			t.Errorf("%v; weights %v, and %v without an evaluation", err, b.Weights, other.Weights)
		}
	}
}

func TestHeldOutDataAfterResume(t *testing.T) {
	o, _, _ := newOptions(t, 2, new([]int64))
	o.Evaluation.HeldOut, o.Evaluation.OnStartup, o.Evaluation.Interval, o.TotalSteps = []HeldOut{{"h", reinforce{}, scored(2)}}, true, 100, 3
	o.From = Progress{Step: 1}
	var steps []int64
	o.Recorder = recorder{log: func(step int64, m trinity.Metrics) {
		if _, ok := m["time/eval"]; ok {
			steps = append(steps, step)
		}
	}}
	if err := New(*o).Run(t.Context(), t.Context()); err != nil || !slices.Equal(steps, []int64{3}) {
		t.Errorf("evaluated after steps %v, %v; want step 3", steps, err)
	}
}

func TestErrorNamesTheHeldOutData(t *testing.T) {
	o, _, _ := newOptions(t, 1, new([]int64))
	o.Evaluation.HeldOut, o.Evaluation.OnStartup = []HeldOut{{"h", failing{}, scored(2)}}, true
	if err := New(*o).Run(t.Context(), t.Context()); err == nil || err.Error() != "evaluation of h: no such loss" {
		t.Error(err)
	}
}

type failing struct{ reinforce }

func (failing) Loss(*trinity.Batch, []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	return nil, nil, errors.New("no such loss")
}
