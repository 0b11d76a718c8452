package cpu

import (
	"context"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// specs are the optimizers by the names that testdata/record_optimizers.py gives them.
var specs = map[string]engine.OptimizerSpec{
	"adamw":    {},
	"sgd":      {Type: engine.SGD},
	"momentum": {Type: engine.SGD, Momentum: 0.9},
	"nesterov": {Type: engine.SGD, Momentum: 0.9, Nesterov: true},
	"muon":     {Type: engine.Muon, Momentum: 0.95, Nesterov: true},
	"heavy":    {Type: engine.Muon, Momentum: 0.9},
}

// fillGradient writes the gradient of a step, as record_optimizers.py makes it: uniform in ±size,
// by name and index.
func (e *Engine) fillGradient(step uint64, size float32) {
	for _, s := range e.base.slots {
		h := fnv.New64a()
		h.Write([]byte(s.name))
		key := mix(h.Sum64() ^ step)
		for i := range e.base.in(e.gradient, s.name) {
			e.gradient[s.from+i] = (float32(mix(key+uint64(i))>>40)*0x1p-23 - 1) * size
		}
	}
}

func TestOptimizersEqualTorch(t *testing.T) {
	want := tensorFile(t, "testdata/optimizers.safetensors")
	p := trinity.OptimParams{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, ClipNorm: 2}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			opts := tiny("llama")
			opts.Optimizer = spec
			e := open(t, opts)
			start := e.rowMajor()
			for step, size := range []float32{0.01, 1, 0.25} {
				e.fillGradient(uint64(step), size)
				if _, err := e.OptimStep(context.Background(), p); err != nil {
					t.Fatal(err)
				}
				if norm(e.gradient) != 0 {
					t.Fatal("the gradient was not cleared")
				}
			}
			for _, tensor := range []string{"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.self_attn.k_proj.weight",
				"model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.down_proj.weight"} {
				moved := want(name + "." + tensor) // of the first rows of an embedding
				got := e.base.in(e.rowMajor(), tensor)[:len(moved)]
				s, _ := e.base.find(tensor)
				for i := range moved {
					got[i] -= start[s.from+i]
				}
				if d := difference(got, moved); d > 1e-3 {
					t.Errorf("%s: what it moved by is %.2g relative off", tensor, d)
				}
			}
		})
	}
}

// Every optimizer learns a batch by heart: the loss falls to a small fraction.
func TestOptimizersLearn(t *testing.T) {
	ctx := context.Background()
	for name, lr := range map[string]float64{"adamw": 1e-2, "sgd": 1, "momentum": 0.2, "nesterov": 0.2, "muon": 2e-2} {
		for _, lora := range []*engine.LoRASpec{nil, {LoraRank: 8, LoraAlpha: 16}} {
			opts := tiny("qwen3")
			opts.Optimizer, opts.LoRA, opts.Seed = specs[name], lora, 1
			e := open(t, opts)
			var base []float32
			if lora != nil {
				base = slices.Clone(e.baseFlat)
			}
			var losses []float64
			for range 60 {
				m, err := e.ForwardBackward(ctx, whole(sequences(t, false)), nll{})
				if err != nil {
					t.Fatal(err)
				}
				losses = append(losses, m["loss"])
				if _, err := e.OptimStep(ctx, trinity.OptimParams{LR: lr, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, ClipNorm: 1}); err != nil {
					t.Fatal(err)
				}
			}
			if last := losses[len(losses)-1]; !(last < losses[0]/2) {
				t.Errorf("%s, LoRA %v: the loss went from %.3f to %.3f", name, lora != nil, losses[0], last)
			}
			if lora != nil && !slices.Equal(base, e.baseFlat) {
				t.Errorf("%s changed frozen weights", name)
			}
		}
	}
}

func TestMuonOrthogonalisesMatricesAlone(t *testing.T) {
	tied, critic, lora := tiny("llama3_bias_tied"), critic(), tiny("qwen2")
	lora.LoRA = &engine.LoRASpec{LoraRank: 2, LoraAlpha: 2}
	for name, opts := range map[string]Options{"tied": tied, "untied": tiny("llama"), "experts": tiny("qwen3_moe"), "critic": critic, "lora": lora} {
		opts.Optimizer = specs["muon"]
		e := open(t, opts)
		m := e.optimizer.(*muon)
		for _, s := range e.trainedLayout().slots {
			matrix := strings.Contains(s.name, "proj.") || strings.Contains(s.name, "lora_") || strings.HasSuffix(s.name, "mlp.gate.weight")
			if m.buffer.layout.has(s.name) != (matrix && len(s.shape) == 2) || m.buffer.layout.has(s.name) == m.mean.layout.has(s.name) {
				t.Errorf("%s: %s %v: orthogonalised %v, AdamW %v", name, s.name, s.shape, m.buffer.layout.has(s.name), m.mean.layout.has(s.name))
			}
		}
	}
}

// Newton–Schulz makes every direction of a matrix about as long as any other, and nothing of
// nothing.
func TestNewtonSchulz(t *testing.T) {
	e := &Engine{}
	random := uint64(9)
	next := func() float32 { random = mix(random); return float32(int64(random)>>40) * 0x1p-23 }
	for _, shape := range [][2]int{{1, 1}, {1, 40}, {40, 1}, {16, 48}, {48, 16}, {8, 200}} {
		rows, cols := shape[0], shape[1]
		k := min(rows, cols)
		x := kernel.NewMatrix(make([]float32, rows*cols), rows, cols)
		space := orthogonal{make([]float32, rows*cols), make([]float32, k*k), make([]float32, k*k), make([]float32, k*k), make([]float32, k*k)}
		if got := space.newtonSchulz(e.pool, x); norm(got) != 0 {
			t.Errorf("%v: zeros became %v", shape, norm(got))
		}
		for i := range x.Data {
			x.Data[i] = 1e-4 * next()
		}
		y := kernel.NewMatrix(slices.Clone(space.newtonSchulz(e.pool, x)), rows, cols)
		for range 20 {
			u, product := make([]float32, k), make([]float32, max(rows, cols))
			for i := range u {
				u[i] = next()
			}
			for i := range rows {
				for j, v := range y.Row(i) {
					if rows <= cols {
						product[j] += u[i] * v
					} else {
						product[i] += u[j] * v
					}
				}
			}
			if stretch := math.Sqrt(norm(product) / norm(u)); stretch < 0.6 || stretch > 1.25 {
				t.Errorf("%v: a direction is stretched by %.3f", shape, stretch)
			}
		}
	}
}

// A gradient that has fewer directions than the matrix, as of few tokens, keeps them: rounding
// errors do not grow to others.
func TestNewtonSchulzOfFewDirections(t *testing.T) {
	const n, directions = 96, 5
	random := uint64(3)
	next := func() float32 { random = mix(random); return float32(int64(random)>>40) * 0x1p-23 }
	x := kernel.NewMatrix(make([]float32, n*n), n, n)
	u := make([]float32, n)
	for d := range directions {
		for i := range u {
			u[i] = next() / float32(math.Pow(10, float64(d)/2)) // a hundred times smaller at the end
		}
		for i := range n {
			kernel.Axpy(x.Row(i), u, next())
		}
	}
	square := func() []float32 { return make([]float32, n*n) }
	space := orthogonal{square(), square(), square(), square(), square()}
	if got := norm(space.newtonSchulz(nil, x)); got < 0.6*0.6*directions || got > 1.25*1.25*directions {
		t.Errorf("the squares of the singular values add up to %.3f, want about %d", got, directions)
	}
}

func TestInvalidOptimizers(t *testing.T) {
	for want, spec := range map[string]engine.OptimizerSpec{
		`"adagrad"; expected adamw, adamw_8bit, muon, sgd`: {Type: "adagrad"},
		"momentum is 1":              {Type: engine.SGD, Momentum: 1},
		"momentum is -0.1":           {Type: engine.Muon, Momentum: -0.1},
		"momentum is NaN":            {Type: engine.Muon, Momentum: math.NaN()},
		"OptimParams.Beta1":          {Momentum: 0.9},
		"adamw_8bit: momentum":       {Type: engine.AdamW8bit, Momentum: 0.9},
		"no effect if momentum is 0": {Type: engine.SGD, Nesterov: true},
	} {
		opts := tiny("llama")
		opts.Optimizer = spec
		if _, err := Open(opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", spec, err, want)
		}
	}
}
