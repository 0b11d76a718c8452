package cpu

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/model"
)

// newer are the families of 2025 and 2026.
var newer = []string{"smollm3", "gemma3_text", "olmo3", "phi3", "ministral3", "granite", "granitemoehybrid", "lfm2"}

var references = slices.Concat([]string{"llama", "llama3_bias_tied", "qwen2", "qwen3", "mistral", "qwen3_moe", "qwen3_moe_sums"}, newer)

// reference holds the records of testdata/record.py for a model.
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

// Three steps of AdamW move each tensor as PyTorch moves it.
func TestStepsEqualTransformers(t *testing.T) {
	p := trinity.OptimParams{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-6, WeightDecay: 0.1, ClipNorm: 1}
	for _, name := range newer {
		t.Run(name, func(t *testing.T) {
			want := tensorFile(t, filepath.Join("testdata", name, "steps.safetensors"))
			e := open(t, tiny(name))
			start := e.rowMajor()
			for range 3 {
				if _, err := e.ForwardBackward(context.Background(), whole(sequences(t, false)), nll{}); err != nil {
					t.Fatal(err)
				}
				if _, err := e.OptimStep(context.Background(), p); err != nil {
					t.Fatal(err)
				}
			}
			end := e.rowMajor()
			for _, s := range e.base.slots {
				moved := end[s.from : s.from+s.size()]
				for i := range moved {
					moved[i] -= start[s.from+i]
				}
				if d := difference(moved, want(s.name)); d > 1e-4 {
					t.Errorf("%s: what it moved by is %.2g relative off", s.name, d)
				}
			}
		})
	}
}

func TestBF16EqualsAModelStoredInBF16(t *testing.T) {
	for _, name := range references {
		opts := tiny(name)
		source, err := model.Open(opts.ModelPath)
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		dir := filepath.Join(t.TempDir(), "bf16")
		if err := model.WriteDir(dir, source.Config, source, "bf16"); err != nil {
			t.Fatal(err)
		}
		logprobs := func(path, dtype string) (all []float32) {
			e := open(t, Options{ModelPath: path, MaxTokens: 256, ForwardOnly: true, DType: dtype})
			stats, err := e.Forward(context.Background(), whole(sequences(t, false)), trinity.Streams{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range stats {
				all = append(all, s.Logprob...)
			}
			return all
		}
		rounded, stored, exact := logprobs(opts.ModelPath, "bf16"), logprobs(dir, ""), logprobs(opts.ModelPath, "f32")
		if !slices.Equal(rounded, stored) {
			t.Errorf("%s: rounding the weights gives other logprobs than weights stored in bf16", name)
		}
		if slices.Equal(rounded, exact) {
			t.Errorf("%s: bf16 changes nothing", name)
		}
	}
	if _, err := Open(Options{ModelPath: tiny("llama").ModelPath, DType: "bf16"}); err == nil || !strings.Contains(err.Error(), "bf16") {
		t.Errorf("training in bf16: %v", err)
	}
}
