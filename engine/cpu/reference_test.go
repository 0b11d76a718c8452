package cpu

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
)

var references = []string{"llama", "llama3_bias_tied", "qwen2", "qwen3", "mistral"}

// reference is what testdata/record.py wrote of a model.
type reference struct {
	NLL, Mix float64
	Rows     []struct {
		Logprob  []float64
		LogprobT []float64 `json:"logprob_t"`
		EntropyT []float64 `json:"entropy_t"`
	}
}

func worst(a []float32, b []float64) float64 {
	w := 0.0
	for i := range a {
		w = max(w, math.Abs(float64(a[i])-b[i]))
	}
	return w
}

func TestForwardEqualsTransformers(t *testing.T) {
	const tolerance = 1e-5
	for _, name := range references {
		t.Run(name, func(t *testing.T) {
			var want reference
			readJSON(t, filepath.Join("testdata", name, "reference.json.gz"), &want)
			e := open(t, tiny(name))
			for _, temperatures := range []bool{false, true} {
				got, err := e.Forward(context.Background(), whole(sequences(t, temperatures)), trinity.Streams{Entropy: true})
				if err != nil {
					t.Fatal(err)
				}
				for i, w := range want.Rows {
					logprob := w.Logprob
					if temperatures {
						logprob = w.LogprobT
						if d := worst(got[i].Entropy, w.EntropyT); d > tolerance {
							t.Errorf("sequence %d: entropy is %.2g nats off", i, d)
						}
					}
					if d := worst(got[i].Logprob, logprob); d > tolerance {
						t.Errorf("sequence %d, temperatures %t: logprob is %.2g nats off", i, temperatures, d)
					}
				}
			}
		})
	}
}

func TestGradientEqualsAutograd(t *testing.T) {
	for _, name := range references {
		t.Run(name, func(t *testing.T) {
			var want reference
			readJSON(t, filepath.Join("testdata", name, "reference.json.gz"), &want)
			tensor := tensorFile(t, filepath.Join("testdata", name, "gradients.safetensors"))
			compareGradients(t, open(t, tiny(name)), want, tensor)
		})
	}
}

// compareGradients checks both recorded losses, tensor by tensor.
func compareGradients(t *testing.T, e *Engine, want reference, tensor func(string) []float32) {
	for _, c := range []struct {
		prefix string
		loss   trinity.Loss
		value  float64
		heat   bool
	}{{"nll.", nll{}, want.NLL, false}, {"mix.", weighted{}, want.Mix, true}} {
		value, gradient := e.gradientOf(t, c.loss, whole(sequences(t, c.heat)))
		if math.Abs(value-c.value) > 1e-5 {
			t.Errorf("%sloss is %.7f, want %.7f", c.prefix, value, c.value)
		}
		for _, s := range e.trainedLayout().slots {
			if d := difference(gradient[s.from:s.from+s.size()], tensor(c.prefix+s.name)); d > 1e-4 {
				t.Errorf("%s%s: gradient is %.2g relative off", c.prefix, s.name, d)
			}
		}
	}
}
