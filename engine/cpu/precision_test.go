package cpu

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
)

// exact holds the records of testdata/record_exact.py.
type exact struct {
	Sequences  [][]int32
	Logprobs   []float64 // of all tokens but the first of each sequence, computed in float64
	TorchError float64   `json:"torch_error"` // mean absolute error of PyTorch in float32
}

// checkPrecision fails unless the mean error of e's log-probabilities is at most PyTorch's.
func checkPrecision(t *testing.T, e *Engine, record string) {
	t.Helper()
	var want exact
	readJSON(t, record, &want)
	var batch []*trinity.Experience
	for i, tokens := range want.Sequences {
		batch = append(batch, allTrained(i, tokens))
	}
	stats, err := e.Forward(t.Context(), whole(batch), trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	sum, largest, n := 0.0, 0.0, 0
	for _, s := range stats {
		for _, logprob := range s.Logprob[1:] {
			d := math.Abs(float64(logprob) - want.Logprobs[n])
			sum, largest, n = sum+d, max(largest, d), n+1
		}
	}
	mean := sum / float64(n)
	t.Logf("mean error %.3g nats, largest %.3g; PyTorch's mean is %.3g", mean, largest, want.TorchError)
	if n != len(want.Logprobs) || !(mean <= want.TorchError) {
		t.Errorf("%d of %d log-probabilities: the mean error is %.3g nats, PyTorch's is %.3g", n, len(want.Logprobs), mean, want.TorchError)
	}
}

func TestLogprobsAreAsExactAsTorch(t *testing.T) {
	e := open(t, Options{ModelPath: "testdata/exact", MaxTokens: 1024, ForwardOnly: true})
	checkPrecision(t, e, filepath.Join("testdata", "exact", "reference.json.gz"))
}

func TestSmolLM2LogprobsAreAsExactAsTorch(t *testing.T) {
	path := smollm2Path(t)
	if testing.Short() {
		t.Skip("loads a model of 135 M parameters")
	}
	e := open(t, Options{ModelPath: path, MaxTokens: 1024, ForwardOnly: true})
	checkPrecision(t, e, filepath.Join("testdata", "smollm2_exact.json.gz"))
}
