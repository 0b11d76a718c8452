package torch

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	_ "github.com/trinity-go/trinity/engine/cpu" // the embedded engine
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
)

// Both engines are given the same model, batch and loss here.

// randomBatch has sequences of several temperatures: two with one prompt, some with holes in their
// masks, one without trained tokens, and two with targets in place of their tokens: three a token, and one.
func randomBatch(vocabulary int) *trinity.Batch {
	r := rand.New(rand.NewPCG(1, 2))
	var xs []*trinity.Experience
	for i, n := range []int{17, 12, 30, 2, 9, 6} {
		x := &trinity.Experience{ID: trinity.ExperienceID{Run: i}, PromptLen: 1, Temperature: []float32{1, 0.6, 1.7}[i%3]}
		for t := range n {
			x.Tokens = append(x.Tokens, int32(r.IntN(vocabulary)))
			x.Mask = append(x.Mask, i != 5 && t > 0 && r.IntN(4) > 0)
			x.Advantages, x.Returns = append(x.Advantages, float32(r.NormFloat64())), append(x.Returns, float32(r.NormFloat64()))
		}
		xs = append(xs, x)
	}
	copy(xs[1].Tokens[:8], xs[0].Tokens)
	xs[3].Mask[1] = true
	for i, k := range map[int]int{0: 3, 4: 1} {
		r := rand.New(rand.NewPCG(3, uint64(i)))
		for range k * len(xs[i].Tokens) {
			xs[i].Targets = append(xs[i].Targets, int32(r.IntN(vocabulary)))
		}
	}
	return &trinity.Batch{Step: 1, Experiences: xs, Whole: xs}
}

// mixed is a loss that depends on each stream: Σ a·logprob + r·entropy + a·r·divergence. Of several targets of a token, the
// first has the weight a, and each further one half of it less.
type mixed struct{ streams trinity.Streams }

func (m mixed) Streams() trinity.Streams { return m.streams }

func (m mixed) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	grads, sum := make([]trinity.TokenGrads, len(now)), 0.0
	for i, x := range b.Experiences {
		n := len(x.Tokens)
		g := &grads[i]
		if m.streams.Value {
			g.Value = make([]float32, n)
		} else {
			g.Logprob = make([]float32, numbersOf(x, "logprob"))
		}
		if m.streams.Entropy {
			g.Entropy = make([]float32, n)
		}
		if m.streams.Divergence.Kind != "" {
			g.Divergence = make([]float32, n)
		}
		for t, trained := range x.Mask {
			if !trained {
				continue
			}
			for _, s := range []struct {
				grad, now []float32
				by        float32
			}{{g.Value, now[i].Value, x.Advantages[t]}, {g.Entropy, now[i].Entropy, x.Returns[t]},
				{g.Divergence, now[i].Divergence, x.Advantages[t] * x.Returns[t]}} {
				if s.grad != nil {
					s.grad[t] = s.by
					sum += float64(s.by * s.now[t])
				}
			}
			if g.Logprob == nil {
				continue
			}
			for k, v := range rowOf(x, now[i].Logprob, t) {
				by := x.Advantages[t] * (1 - float32(k)/2)
				rowOf(x, g.Logprob, t)[k] = by
				sum += float64(by * v)
			}
		}
	}
	return grads, trinity.Metrics{"loss": sum}, nil
}

// apart returns the largest difference of any stream.
func apart(a, b []trinity.TokenStats) float64 {
	d := 0.0
	for i := range a {
		for _, name := range []string{"logprob", "entropy", "value", "discriminator", "divergence"} {
			x, y := *streamOf(&a[i], name), *streamOf(&b[i], name)
			if len(x) != len(y) {
				return math.Inf(1)
			}
			for t := range x {
				d = max(d, math.Abs(float64(x[t])-float64(y[t])))
			}
		}
	}
	return d
}

// weightsOf returns the weights that an engine saves, by name.
func weightsOf(t *testing.T, save func(context.Context, string) error, lora bool) map[string][]float32 {
	t.Helper()
	dir := t.TempDir()
	if err := save(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	var source model.Source
	if lora {
		base, _, err := model.AdapterBase(dir)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := model.ReadConfig(base)
		if err != nil {
			t.Fatal(err)
		}
		a, err := model.OpenAdapter(dir, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		source = a
	} else {
		m, err := model.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		source = m
	}
	all := map[string][]float32{}
	for _, name := range source.Names() {
		tensor, err := source.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		v := make([]float32, tensor.Len())
		if err := tensor.Float32(v); err != nil {
			t.Fatal(err)
		}
		all[name] = v
	}
	return all
}

// gradientOf returns the gradient of a loss by each weight: an SGD step with a large rate makes the
// weights the gradient, but for a rounding error.
func gradientOf(t *testing.T, e engine.Trainer, b *trinity.Batch, loss trinity.Loss, lora bool) (
	gradient map[string][]float32, sum float64,
) {
	t.Helper()
	var metrics trinity.Metrics
	gradient = stepOf(t, e, lora, func() (err error) {
		metrics, err = e.ForwardBackward(t.Context(), b, loss)
		return err
	})
	return gradient, metrics["loss"]
}

// stepOf returns the gradient that accumulate adds.
func stepOf(t *testing.T, e engine.Trainer, lora bool, accumulate func() error) map[string][]float32 {
	t.Helper()
	const rate = 1 << 12
	before := weightsOf(t, e.SaveModel, lora)
	if err := accumulate(); err != nil {
		t.Fatal(err)
	}
	metrics, err := e.OptimStep(t.Context(), trinity.OptimParams{LR: rate})
	if err != nil {
		t.Fatal(err)
	}
	after, square := weightsOf(t, e.SaveModel, lora), 0.0
	for name, v := range after {
		for i := range v {
			v[i] = (before[name][i] - v[i]) / rate
			square += float64(v[i]) * float64(v[i])
		}
	}
	if norm := math.Sqrt(square); math.Abs(metrics["grad_norm"]-norm) > 1e-4*norm {
		t.Errorf("the norm of the gradient is %v, want %v", metrics["grad_norm"], norm)
	}
	return after
}

// compareGradients checks ‖a−b‖/‖b‖ of all weights and of each tensor that has a part in it.
func compareGradients(t *testing.T, got, want map[string][]float32, all, each float64) {
	t.Helper()
	square := func(v float64) float64 { return v * v }
	off, of := 0.0, 0.0
	for name, w := range want {
		tensorOff, tensorOf := 0.0, 0.0
		if len(got[name]) != len(w) {
			t.Fatalf("tensor %s has %d numbers, want %d", name, len(got[name]), len(w))
		}
		for i := range w {
			tensorOff, tensorOf = tensorOff+square(float64(got[name][i])-float64(w[i])), tensorOf+square(float64(w[i]))
		}
		if tensorOf > 1e-8 && math.Sqrt(tensorOff/tensorOf) > each {
			t.Errorf("gradient of %s is %.2g off, relatively; want at most %.2g", name, math.Sqrt(tensorOff/tensorOf), each)
		}
		off, of = off+tensorOff, of+tensorOf
	}
	if math.Sqrt(off/of) > all || of == 0 {
		t.Errorf("the gradient is %.2g off, relatively; want at most %.2g", math.Sqrt(off/of), all)
	}
}

func embedded(t *testing.T, spec engine.TrainerSpec) engine.Trainer {
	t.Helper()
	opener, err := registry.Trainers.Build("cpu")
	if err != nil {
		t.Fatal(err)
	}
	return opened(t, opener, spec)
}

func TestAgreesWithTheEmbeddedEngine(t *testing.T) {
	lora, critic := trained("qwen2"), tiny("qwen2")
	lora.LoRA = &engine.LoRASpec{Path: filepath.Join(lora.ModelPath)}
	critic.Train, critic.Head, critic.Seed = true, engine.ValueHead, 3
	head, tied := trained("llama"), trained("llama3_bias_tied")
	for _, spec := range []*engine.TrainerSpec{&head, &tied} {
		spec.LoRA = &engine.LoRASpec{Path: tiny(filepath.Join("head_adapter", filepath.Base(spec.ModelPath))).ModelPath}
	}
	experts, half := trained("qwen3_moe"), trained("qwen3_moe_sums")
	experts.LoRA = &engine.LoRASpec{Path: tiny("expert_adapter/both").ModelPath}
	half.LoRA = &engine.LoRASpec{Path: tiny("expert_adapter/gate_up").ModelPath}
	cases := map[string]engine.TrainerSpec{
		"adapters": lora, "critic": critic, "adapter of the head": head, "adapter of a tied head": tied, "adapter of experts": experts,
		"adapter of experts alone": half,
	}
	for _, name := range []string{"llama", "llama3_bias_tied", "qwen2", "qwen3", "mistral", "qwen3_moe", "smollm3"} {
		cases[name] = trained(name)
	}
	for _, ranks := range []int{1, 2} {
		if ranks > 1 {
			for _, name := range []string{"adapters", "critic", "llama", "qwen3_moe", "adapter of the head", "adapter of experts"} {
				spec := cases[name]
				spec.Strategy = "ddp"
				cases[name+", ddp"] = spec
			}
			for _, name := range []string{"adapters", "critic", "llama", "mistral", "qwen3_moe"} {
				spec := cases[name]
				spec.Sequence = 2
				cases[name+", parts of rows"] = spec
			}
		}
		for name, spec := range cases {
			t.Run(fmt.Sprintf("%s, ranks: %d", name, ranks), func(t *testing.T) {
				spec.Optimizer = engine.OptimizerSpec{Type: engine.SGD}
				ours, theirs := opened(t, onRanks(t, ranks), spec), embedded(t, spec)
				computeAlike(t, ours, theirs, spec)
			})
		}
	}
}

// computeAlike compares the streams, the gradient and the loss of two engines of one specification.
func computeAlike(t *testing.T, ours, theirs engine.Trainer, spec engine.TrainerSpec) {
	t.Helper()
	b, want := randomBatch(64), trinity.Streams{Value: spec.Head == engine.ValueHead}
	if !want.Value {
		want.Entropy, want.Discriminator = true, true
	}
	agree(t, ours, theirs, b, want)
	if spec.Reference {
		x, err := ours.Reference(t.Context(), b)
		y, err2 := theirs.Reference(t.Context(), b)
		if err != nil || err2 != nil || apart(x, y) > 1e-4 {
			t.Errorf("reference: %v, %v, %.2g nats off", err, err2, apart(x, y))
		}
	}
	want.Discriminator = false
	got, ourLoss := gradientOf(t, ours, b, mixed{want}, spec.LoRA != nil)
	ref, theirLoss := gradientOf(t, theirs, b, mixed{want}, spec.LoRA != nil)
	compareGradients(t, got, ref, 1e-5, 2e-5)
	if math.Abs(ourLoss-theirLoss) > 1e-3 {
		t.Errorf("the loss is %v, want %v", ourLoss, theirLoss)
	}
}

// Replies to one prompt, whose rows the worker computes once, have the numbers that the embedded engine gives them.
func TestGroupsAgreeWithTheEmbeddedEngine(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	draw := func(n int) (tokens []int32) {
		for range n {
			tokens = append(tokens, r.Int32N(64))
		}
		return tokens
	}
	var xs []*trinity.Experience
	for range 2 {
		prompt := draw(20)
		for range 4 {
			x := &trinity.Experience{ID: trinity.ExperienceID{Run: len(xs)}, PromptLen: len(prompt), Temperature: 1}
			x.Tokens = slices.Concat(prompt, draw(1+r.IntN(9)))
			for t := range x.Tokens {
				x.Mask = append(x.Mask, t >= len(prompt)-3 && r.IntN(4) > 0 || t == len(prompt))
				x.Advantages, x.Returns = append(x.Advantages, float32(r.NormFloat64())), append(x.Returns, float32(r.NormFloat64()))
			}
			xs = append(xs, x)
		}
	}
	b, want := &trinity.Batch{Step: 1, Experiences: xs, Whole: xs}, trinity.Streams{Entropy: true}
	for _, ranks := range []int{1, 2} {
		for _, name := range []string{"llama", "mistral", "qwen3_moe"} {
			t.Run(fmt.Sprintf("%s, ranks: %d", name, ranks), func(t *testing.T) {
				spec := trained(name)
				spec.Optimizer, spec.Reference = engine.OptimizerSpec{Type: engine.SGD}, false
				ours, theirs := opened(t, onRanks(t, ranks), spec), embedded(t, spec)
				if p := newPiece(1, 0, ours.(*workerModel).cfg); ranks == 1 {
					for _, x := range xs {
						p.add(x.Tokens)
					}
					if !p.shared {
						t.Error("the sequences share no stem")
					}
				}
				agree(t, ours, theirs, b, want)
				got, _ := gradientOf(t, ours, b, mixed{want}, false)
				ref, _ := gradientOf(t, theirs, b, mixed{want}, false)
				compareGradients(t, got, ref, 1e-5, 2e-5)
			})
		}
	}
}

// balanced is a tiny model with experts whose configuration asks for the load-balancing loss.
func balanced(t *testing.T) engine.TrainerSpec {
	t.Helper()
	spec := trained("qwen3_moe_sums")
	spec.Reference, spec.Optimizer.Type = false, engine.SGD
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		text, err := os.ReadFile(filepath.Join(spec.ModelPath, name))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte(`"output_router_logits": false`), []byte(`"output_router_logits": true`), 1)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec.ModelPath = dir
	return spec
}

// without is a loss without derivatives.
type without struct{}

func (without) Streams() trinity.Streams { return trinity.Streams{} }

func (without) Loss(b *trinity.Batch, _ []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	return make([]trinity.TokenGrads, len(b.Experiences)), trinity.Metrics{}, nil
}

// The load-balancing loss is that of the embedded engine, however a step is cut, also where the
// other loss has no gradient.
func TestLoadBalancingLoss(t *testing.T) {
	spec := balanced(t)
	gradient := func(e engine.Trainer, loss trinity.Loss, pieces int) (map[string][]float32, float64) {
		all, sum := randomBatch(64).Experiences, 0.0
		got := stepOf(t, e, false, func() error {
			for part := range slices.Chunk(all, len(all)/pieces) {
				m, err := e.ForwardBackward(t.Context(), &trinity.Batch{Step: 1, Experiences: part, Whole: all}, loss)
				if err != nil {
					return err
				}
				sum += m["router/aux_loss"]
			}
			return nil
		})
		return got, sum
	}
	for name, loss := range map[string]trinity.Loss{"alone": without{}, "with another loss": mixed{}} {
		want, sum := gradient(embedded(t, spec), loss, 1)
		for _, ranks := range []int{1, 2} {
			for _, pieces := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s, ranks: %d, pieces: %d", name, ranks, pieces), func(t *testing.T) {
					got, ours := gradient(opened(t, onRanks(t, ranks), spec), loss, pieces)
					compareGradients(t, got, want, 1e-5, 2e-5)
					if math.Abs(ours-sum) > 1e-5 || sum == 0 {
						t.Errorf("the load-balancing loss is %v, want %v", ours, sum)
					}
				})
			}
		}
	}
}

// The load of the experts is that of the embedded engine, however a step is cut and whichever layers
// are computed again, and a step begins to count anew.
func TestLoadOfTheExperts(t *testing.T) {
	withLoss, without := balanced(t), trained("qwen3_moe")
	without.Optimizer.Type = engine.SGD
	again := without
	again.Recompute = 2
	measure := func(e engine.Trainer, pieces int) trinity.Metrics {
		all := randomBatch(64).Experiences
		if _, err := e.Forward(t.Context(), &trinity.Batch{Experiences: all}, trinity.Streams{}); err != nil { // does not count
			t.Fatal(err)
		}
		for part := range slices.Chunk(all, len(all)/pieces) {
			if _, err := e.ForwardBackward(t.Context(), &trinity.Batch{Step: 1, Experiences: part, Whole: all}, mixed{}); err != nil {
				t.Fatal(err)
			}
		}
		m, err := e.OptimStep(t.Context(), trinity.OptimParams{LR: 1e-3})
		if err != nil {
			t.Fatal(err)
		}
		if empty, err := e.OptimStep(t.Context(), trinity.OptimParams{LR: 1e-3}); err != nil || len(empty) != 2 {
			t.Errorf("%v, %v after a step without tokens", empty, err)
		}
		return m
	}
	for name, spec := range map[string]engine.TrainerSpec{"with the loss": withLoss, "without": without, "recomputed": again} {
		theirs := spec
		theirs.Recompute = 0
		want := measure(embedded(t, theirs), 1)
		for _, ranks := range []int{1, 2} {
			got := measure(opened(t, onRanks(t, ranks), spec), 3)
			for _, metric := range []string{"router/load_max", "router/load_min", "router/load_entropy"} {
				if want[metric] == 0 && metric != "router/load_min" || math.Abs(got[metric]-want[metric]) > 1e-9 {
					t.Errorf("%s, ranks: %d: %s is %v, want %v", name, ranks, metric, got[metric], want[metric])
				}
			}
		}
	}
}

// agree checks that two engines give the same streams within 1e-4.
func agree(t *testing.T, ours, theirs engine.Trainer, b *trinity.Batch, want trinity.Streams) {
	t.Helper()
	x, err := ours.Forward(t.Context(), b, want)
	if err != nil {
		t.Fatal(err)
	}
	y, err := theirs.Forward(t.Context(), b, want)
	if err != nil {
		t.Fatal(err)
	}
	if d := apart(x, y); d > 1e-4 {
		t.Errorf("streams %+v are up to %.2g apart", want, d)
	}
}

func TestDivergencesAgreeWithTheEmbeddedEngine(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		for _, d := range []trinity.Divergence{{Kind: trinity.ForwardKL}, {Kind: trinity.ReverseKL}, {Kind: trinity.JSD, Beta: 0.3}} {
			t.Run(fmt.Sprintf("%s, ranks: %d", d.Kind, ranks), func(t *testing.T) {
				student := trained("qwen2")
				student.Optimizer, student.Teachers = engine.OptimizerSpec{Type: engine.SGD}, []string{tiny("teacher").ModelPath}
				with := func(o engine.TrainerOpener) engine.Trainer {
					e := opened(t, o, student)
					teachers := map[string]engine.Trainer{"": opened(t, o, tiny("teacher")), "other": opened(t, o, tiny("llama"))}
					if err := e.(trainer.Distiller).SetTeachers(teachers); err != nil {
						t.Fatal(err)
					}
					return e
				}
				opener, err := registry.Trainers.Build("cpu")
				if err != nil {
					t.Fatal(err)
				}
				ours, theirs := with(onRanks(t, ranks)), with(opener)
				b, want := randomBatch(64), trinity.Streams{Divergence: d, Entropy: true}
				b.Experiences[1].Teacher, b.Experiences[2].Teacher = "other", "other"
				agree(t, ours, theirs, b, want)
				got, _ := gradientOf(t, ours, b, mixed{want}, false)
				ref, _ := gradientOf(t, theirs, b, mixed{want}, false)
				compareGradients(t, got, ref, 1e-5, 2e-5)
			})
		}
	}
}

// A state goes from two ranks to one and back, and from shards to copies.
func TestStateOfAnotherNumberOfRanks(t *testing.T) {
	spec, b := trained("qwen2"), randomBatch(64)
	straight, reference := opened(t, onRanks(t, 2), spec), embedded(t, spec)
	for range 3 {
		step(t, straight)
		step(t, reference)
	}
	first := opened(t, onRanks(t, 2), spec)
	step(t, first)
	copies := spec
	copies.Strategy = "ddp"
	engines := []engine.Trainer{first, opened(t, onRanks(t, 1), spec), opened(t, onRanks(t, 2), copies)}
	for i, e := range engines[1:] {
		dir := t.TempDir()
		if err := engines[i].SaveState(context.Background(), dir); err != nil {
			t.Fatal(err)
		}
		if err := e.LoadState(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		step(t, e)
	}
	last := engines[2]
	agree(t, last, straight, b, trinity.Streams{})
	x, err := last.Forward(t.Context(), b, trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	y, err := reference.Forward(t.Context(), b, trinity.Streams{})
	if err != nil || apart(x, y) > 1e-3 {
		t.Errorf("after three AdamW steps: %v, %.2g nats from the embedded engine", err, apart(x, y))
	}
}
