package cpu

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/model"
)

// expertAdapters are the adapters of testdata/record_expert_adapter.py, and their models.
var expertAdapters = map[string]string{"both": "qwen3_moe", "gate_up": "qwen3_moe_sums", "down": "qwen3_moe_sums"}

func expertAdapter(name string) Options {
	opts := tiny(expertAdapters[name])
	opts.LoRA = &engine.LoRASpec{Path: filepath.Join("testdata/expert_adapter", name)}
	return opts
}

// newExpertAdapter returns a model with a new adapter of attention and experts.
func newExpertAdapter(name string) Options {
	opts := tiny(name)
	opts.LoRA = &engine.LoRASpec{
		LoraRank: 5, LoraAlpha: 8, TargetModules: engine.Names{model.AllLinear},
		TargetParameters: engine.Names{"mlp.experts.gate_up_proj", "mlp.experts.down_proj"},
	}
	opts.Seed = 3
	return opts
}

func TestExpertAdapterEqualsPEFT(t *testing.T) {
	for name := range expertAdapters {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata/expert_adapter", name)
			var want reference
			readJSON(t, filepath.Join(dir, "reference.json.gz"), &want)
			e := open(t, expertAdapter(name))
			stats, err := e.Forward(t.Context(), whole(sequences(t, true)), trinity.Streams{Entropy: true})
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range want.Rows {
				if d := max(worst(stats[i].Logprob, w.LogprobT), worst(stats[i].Entropy, w.EntropyT)); d > 1e-5 {
					t.Errorf("sequence %d: %.2g nats off", i, d)
				}
			}
			tensor := tensorFile(t, filepath.Join(dir, "gradients.safetensors"))
			compareGradients(t, e, want, tensor)
			_, gradient := e.gradientOf(t, weighted{}, whole(sequences(t, true)))
			var recorded []float32
			for _, s := range e.adapters.slots {
				recorded = append(recorded, tensor("mix."+s.name)...)
			}
			if d := difference(withoutGaps(&e.adapters.layout, gradient), recorded); d > 1e-5 {
				t.Errorf("gradient of all tensors is %.2g relative off", d)
			}
		})
	}
}

func withoutGaps(l *layout, flat []float32) (all []float32) {
	for _, s := range l.slots {
		all = append(all, flat[s.from:s.from+s.size()]...)
	}
	return all
}

func TestStepsOfExpertAdaptersEqualPEFT(t *testing.T) {
	p := trinity.OptimParams{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-6, WeightDecay: 0.1, ClipNorm: 1}
	for name := range expertAdapters {
		e := open(t, expertAdapter(name))
		tensor := tensorFile(t, filepath.Join("testdata/expert_adapter", name, "steps.safetensors"))
		start := slices.Clone(e.trained)
		for range 3 {
			if _, err := e.ForwardBackward(t.Context(), whole(sequences(t, false)), nll{}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.OptimStep(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range e.adapters.slots {
			moved := slices.Clone(e.adapters.in(e.trained, s.name))
			for i, v := range e.adapters.in(start, s.name) {
				moved[i] -= v
			}
			if d := difference(moved, tensor(s.name)); d > 1e-4 {
				t.Errorf("%s, %s: what it moved by is %.2g relative off", name, s.name, d)
			}
		}
	}
}

// The adapter's files are written as PEFT writes them, and merging gives PEFT's weights.
func TestExpertAdapterIsWrittenAndMergedAsPEFTDoes(t *testing.T) {
	for name := range expertAdapters {
		from, to := filepath.Join("testdata/expert_adapter", name), t.TempDir()
		e := open(t, expertAdapter(name))
		if err := e.SaveModel(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		const file = "adapter_model.safetensors"
		recorded, err := safetensors.Open(filepath.Join(from, file))
		if err != nil {
			t.Fatal(err)
		}
		defer recorded.Close()
		written, got, want := 0, tensorFile(t, filepath.Join(to, file)), tensorFile(t, filepath.Join(from, file))
		for _, tensor := range recorded.Names() {
			written += len(got(tensor))
			if !slices.Equal(got(tensor), want(tensor)) {
				t.Errorf("%s: %s is not PEFT's", name, tensor)
			}
		}
		if int64(written) != e.Parameters() {
			t.Errorf("%s: PEFT has %d numbers, the engine trains %d", name, written, e.Parameters())
		}
		base, err := model.Open(tiny(expertAdapters[name]).ModelPath)
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		adapter, err := model.OpenAdapter(to, base.Config)
		if err != nil {
			t.Fatal(err)
		}
		defer adapter.Close()
		merged, err := model.Merge(base, adapter)
		if err != nil {
			t.Fatal(err)
		}
		weights, different := tensorFile(t, filepath.Join(from, "merged.safetensors")), 0
		for _, spec := range base.Config.Tensors() {
			tensor, err := merged.Tensor(spec.Name)
			if err != nil {
				t.Fatal(err)
			}
			own, _ := base.Tensor(spec.Name)
			got, before := make([]float32, tensor.Len()), make([]float32, tensor.Len())
			if err := tensor.Float32(got); err != nil {
				t.Fatal(err)
			}
			if err := own.Float32(before); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, before) {
				different++
			}
			for i, v := range weights(spec.Name) {
				if math.Abs(float64(got[i]-v)) > 1e-6 {
					t.Fatalf("%s: %s element %d is %v, want %v", name, spec.Name, i, got[i], v)
				}
			}
		}
		if different == 0 {
			t.Errorf("%s: merging changed nothing", name)
		}
	}
}

func TestExpertAdapterDoesNotDependOnCoresOrCut(t *testing.T) {
	var all []*trinity.Experience
	for i := range int32(6) {
		all = append(all, apart(sequences(t, true), i)...)
	}
	e := open(t, expertAdapter("both"))
	_, want := e.gradientOf(t, weighted{}, whole(all))
	for _, cores := range []int{1, 5} {
		opts := expertAdapter("both")
		opts.Pool = kernel.NewPool(cores)
		defer opts.Pool.Close()
		if _, got := open(t, opts).gradientOf(t, weighted{}, whole(all)); !slices.Equal(got, want) {
			t.Errorf("%d cores: %.2g relative off", cores, difference(got, want))
		}
	}
	var cut []*trinity.Batch
	for part := range slices.Chunk(all, 4) {
		cut = append(cut, &trinity.Batch{Step: 1, Experiences: part, Whole: all})
	}
	if _, got := e.gradientOf(t, weighted{}, cut...); difference(got, want) > 1e-6 {
		t.Errorf("%d micro-batches: %.2g relative off", len(cut), difference(got, want))
	}
}

// The rows of a step may have several adapters. Each has the bits of Forward.
func TestScoresOfExpertAdaptersEqualForward(t *testing.T) {
	scoresEqualForward(t, "qwen3_moe", newExpertAdapter("qwen3_moe"), expertAdapter("both").LoRA.Path)
}

func TestExpertAdapterResumes(t *testing.T) {
	dir := t.TempDir()
	e := open(t, newExpertAdapter("qwen3_moe"))
	train(t, e, sequences(t, true), 2)
	if err := e.SaveModel(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := e.SaveState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	opts := tiny("qwen3_moe")
	opts.LoRA = &engine.LoRASpec{Path: dir}
	again := open(t, opts)
	if err := again.LoadState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	train(t, e, sequences(t, true), 2)
	train(t, again, sequences(t, true), 2)
	if !slices.Equal(again.trained, e.trained) {
		t.Error("the resumed run has other weights")
	}
	other := tiny("qwen3_moe")
	other.LoRA = &engine.LoRASpec{LoraRank: 5, LoraAlpha: 8}
	if err := open(t, other).LoadState(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "with LoRA rank 5") {
		t.Errorf("a run without adapters of experts: %v", err)
	}
}

// A token at five experts has more low-rank states at once than q, k and v have.
func TestExpertAdapterOfManyExperts(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/qwen3_moe")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.Replace(text, []byte(`"num_experts_per_tok": 2`), []byte(`"num_experts_per_tok": 5`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{ModelPath: dir, LoRA: expertAdapter("both").LoRA}
	e := open(t, opts)
	if n := e.Config().Mixture.PerToken; n != 5 {
		t.Fatalf("%d experts", n)
	}
	_, want := e.gradientOf(t, weighted{}, whole(sequences(t, true)))
	opts.Pool = kernel.NewPool(1)
	defer opts.Pool.Close()
	if _, got := open(t, opts).gradientOf(t, weighted{}, whole(sequences(t, true))); !slices.Equal(got, want) {
		t.Errorf("one core: %.2g relative off", difference(got, want))
	}
}

// A tenant with an adapter of experts takes more scratch than one of attention, and computes beside it as alone.
func TestTenantWithAnExpertAdapter(t *testing.T) {
	alone := open(t, expertAdapter("gate_up")) // each token has three experts
	_, want := alone.gradientOf(t, weighted{}, whole(sequences(t, true)))
	b, err := openShared(tiny("qwen3_moe_sums"))
	if err != nil {
		t.Fatal(err)
	}
	for _, lora := range []*engine.LoRASpec{{LoraRank: 1, LoraAlpha: 1}, expertAdapter("gate_up").LoRA} {
		trainer, err := b.Tenant(t.Context(), lora, 1)
		if err != nil {
			t.Fatal(err)
		}
		e := trainer.(*Engine)
		_, got := e.gradientOf(t, weighted{}, whole(sequences(t, true)))
		if lora.Path != "" && !slices.Equal(got, want) {
			t.Errorf("the gradient is %.2g relative off", difference(got, want))
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestRefusedTargetParameters(t *testing.T) {
	for name, c := range map[string]struct{ target, want string }{
		"qwen2": {"mlp.experts.down_proj", "target_parameters names tensors of experts, and a qwen2 model has no experts: leave it out"},
		"qwen3_moe": {"mlp.experts.up_proj", `target_parameters: no tensor of experts is called "mlp.experts.up_proj"; ` +
			"known are mlp.experts.gate_up_proj and mlp.experts.down_proj"},
	} {
		opts := tiny(name)
		opts.LoRA = &engine.LoRASpec{LoraRank: 2, LoraAlpha: 2, TargetParameters: engine.Names{c.target}}
		if _, err := Open(opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", name, err, c.want)
		}
	}
}
