package trainer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// Held-out data is measured at the start, as often as is asked and at the end, as a whole, and
// nothing is learnt from it.
func TestHeldOutDataIsMeasured(t *testing.T) {
	for _, microTokens := range []int{2, 1000} {
		var steps []string
		o, b, _ := newOptions(t, 5, new([]int64))
		engine := &counting{Bandit: b}
		var losses []float64
		o.Policy.Engine, o.Reference, o.TotalSteps, o.Evaluation.Interval, o.Evaluation.OnStartup, o.MicroTokens = engine, true, 5, 2, true, microTokens
		looking := &pairing{probes: func(whole []*trinity.Experience) []*trinity.Experience { return whole[:1] }}
		o.Evaluation.HeldOut = []HeldOut{{"good", reinforce{}, scored(6)[1:2]}, {"both", looking, scored(6)}}
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
		if got := strings.Join(steps, " "); got != "0 2 4 5" || !slices.IsSortedFunc(losses, func(a, b float64) int { return int(max(-1, min(1, 1e9*(b-a)))) }) || losses[3] == losses[0] {
			t.Errorf("losses %v at steps %s", losses, got)
		}
		if want := 5*8 + 1 + 6; engine.sequences != want { // what is measured again has kept what the reference says of it
			t.Errorf("%d sequences were computed under the reference, want %d", engine.sequences, want)
		}
		if got := looking.seen[0]; got != "probes of 6" {
			t.Errorf("first the loss was shown %s", got)
		}
		alone, other, _ := newOptions(t, 5, new([]int64))
		alone.MicroTokens = microTokens
		if err := New(*alone).Run(t.Context(), t.Context()); err != nil || !slices.Equal(other.Weights, b.Weights) {
			t.Errorf("%v; weights %v, and %v where nothing is measured", err, b.Weights, other.Weights)
		}
	}
}

func TestHeldOutDataAfterAResume(t *testing.T) {
	o, _, _ := newOptions(t, 2, new([]int64))
	o.Evaluation.HeldOut, o.Evaluation.OnStartup, o.Evaluation.Interval, o.TotalSteps = []HeldOut{{"h", reinforce{}, scored(2)}}, true, 100, 3
	o.From = Progress{1, 0}
	var steps []int64
	o.Recorder = recorder{log: func(step int64, m trinity.Metrics) {
		if _, ok := m["time/eval"]; ok {
			steps = append(steps, step)
		}
	}}
	if err := New(*o).Run(t.Context(), t.Context()); err != nil || !slices.Equal(steps, []int64{3}) {
		t.Errorf("measured after steps %v, %v", steps, err)
	}
}

func TestAnEvaluationThatFails(t *testing.T) {
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
