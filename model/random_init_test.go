package model

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func quickstartConfig(t *testing.T) *Config {
	t.Helper()
	c, err := ParseConfig([]byte(`{"model_type":"qwen3","hidden_size":128,"intermediate_size":384,"num_hidden_layers":2,
		"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,"vocab_size":272,"attention_bias":true}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRandomInitHasItsDistribution(t *testing.T) {
	cfg := quickstartConfig(t)
	for style, deviation := range map[string]func(spec TensorSpec) float64{
		styleHF: func(TensorSpec) float64 { return 0.02 },
		styleFanIn: func(spec TensorSpec) float64 {
			if spec.Name == embeddingName {
				return 0.5 / math.Sqrt(128)
			}
			return 1 / math.Sqrt(float64(spec.Shape[1]))
		},
	} {
		m, err := RandomInit(cfg, 3, style)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range cfg.Tensors() {
			v := values(t, m, spec.Name)
			if len(spec.Shape) == 1 {
				want := float32(1)
				if strings.HasSuffix(spec.Name, ".bias") {
					want = 0
				}
				for _, x := range v {
					if x != want {
						t.Fatalf("%s holds %v, want %v", spec.Name, x, want)
					}
				}
				continue
			}
			checkNormal(t, style+" "+spec.Name, v, deviation(spec))
		}
	}
}

// checkNormal tests mean, variance, kurtosis and neighbour correlation within five standard errors.
func checkNormal(t *testing.T, what string, v []float32, std float64) {
	var mean, square, fourth, neighbours float64
	for i, x := range v {
		z := float64(x) / std
		mean, square, fourth = mean+z, square+z*z, fourth+z*z*z*z
		if i > 0 {
			neighbours += z * float64(v[i-1]) / std
		}
	}
	n := float64(len(v))
	for name, c := range map[string]struct{ got, want, sigma float64 }{
		"mean": {mean / n, 0, 1}, "variance": {square / n, 1, math.Sqrt(2)}, "fourth moment": {fourth / n, 3, math.Sqrt(96)},
		"correlation": {neighbours / n, 0, 1},
	} {
		if math.Abs(c.got-c.want) > 5*c.sigma/math.Sqrt(n) {
			t.Errorf("%s: %s is %v, want about %v", what, name, c.got, c.want)
		}
	}
}

// The bytes for a seed are part of every recorded result, so they must never change on any machine.
func TestRandomInitIsFixed(t *testing.T) {
	cfg := quickstartConfig(t)
	m, err := RandomInit(cfg, 42, styleFanIn)
	if err != nil {
		t.Fatal(err)
	}
	const name = "model.layers.1.mlp.down_proj.weight"
	v := values(t, m, name)
	if got, want := checksum(v), "059231d3be4c971c5ce8fbe53e44684ad88dd92ed7f8b844d97c3947713af262"; got != want {
		t.Errorf("checksum %s, want %s", got, want)
	}
	tensor, _ := m.Tensor(name)
	part := make([]float32, 2*384)
	if err := tensor.Rows(part, 5, 7); err != nil || !reflect.DeepEqual(part, v[5*384:7*384]) {
		t.Errorf("rows 5 and 6 read alone differ: %v", err)
	}
	other, _ := RandomInit(cfg, 43, styleFanIn)
	if reflect.DeepEqual(values(t, other, name), v) || reflect.DeepEqual(values(t, m, "model.layers.0.mlp.down_proj.weight"), v) {
		t.Error("another seed or another tensor has the same numbers")
	}
	if _, err := RandomInit(cfg, 1, "xavier"); err == nil || !strings.Contains(err.Error(), "known are hf, fan_in") {
		t.Errorf("unknown style: %v", err)
	}
}

func TestLogarithmIsAccurate(t *testing.T) {
	for i := range 100_000 {
		x := (float64(i) + 0.5) / 100_000
		if got, want := log(x), math.Log(x); math.Abs(got-want) > 4e-16*math.Max(1, math.Abs(want)) {
			t.Fatalf("log(%v) = %v, want %v", x, got, want)
		}
	}
}
