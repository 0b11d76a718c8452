package examples

import (
	"fmt"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// sweptRates are the learning rates of the sweep in examples/sweep/README.md.
var sweptRates = []string{"1e-4", "1e-3", "4e-3", "1e-2", "3e-2"}

// The held-out loss has a minimum between the learning rates of the sweep. With -update the test writes
// what was measured into the document.
func TestSweepResults(t *testing.T) {
	trinitytest.TooLong(t, "trains fifteen models")
	t.Chdir("..")
	values := map[string][]float64{}
	for _, rate := range sweptRates {
		for seed := range 3 {
			records := runExampleIn(t, t.TempDir(), "sweep/sweep.yaml", "algorithm.optimizer.lr="+rate, fmt.Sprint("seed=", seed))
			values[rate] = append(values[rate], last(curve(records, "eval/held_out/sft_loss")))
		}
	}
	best := mean(values["4e-3"])
	for _, rate := range sweptRates {
		if mean(values[rate]) < best {
			t.Errorf("the loss with %s is %.3f, and with 4e-3 %.3f", rate, mean(values[rate]), best)
		}
	}
	hold(t, "examples/sweep", results{Values: values})
}

func sweepTable(r results) map[string]string {
	table := measuredAt(r.Commit) + head("learning rate", "seed 0", "seed 1", "seed 2", "mean")
	for _, rate := range sweptRates {
		v := r.Values[rate]
		table += fmt.Sprintf("| %s | %s | %s |\n", rate, cells(v), share(mean(v)))
	}
	return map[string]string{"sweep": table}
}
