package cpu

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/sampler"
	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/model"
)

// recorder keeps the published weights.
type recorder struct {
	cfg     *model.Config
	version int64
	tensors map[string][]float32
	names   []string
	lora    *model.LoRA
	adapter map[string][]float32
}

func (r *recorder) InPlace() bool { return false }

func (r *recorder) Rest() {}

func (r *recorder) UpdateFrom(version int64, w sampler.Weights) error {
	r.version, r.tensors = version, map[string][]float32{}
	for _, name := range r.names {
		v, err := w.Tensor(name)
		if err != nil {
			return err
		}
		r.tensors[name] = slices.Clone(v)
	}
	return nil
}

func (r *recorder) UpdateAdapter(version int64, lora *model.LoRA, tensor func(name string) ([]float32, error)) error {
	r.version, r.lora, r.adapter = version, lora, map[string][]float32{}
	specs, err := lora.Tensors(r.cfg)
	if err != nil {
		return err
	}
	for _, s := range specs {
		v, err := tensor(s.Name)
		if err != nil {
			return err
		}
		r.adapter[s.Name] = slices.Clone(v)
	}
	return nil
}

func (r *recorder) equal(o *recorder) bool {
	for _, name := range r.names {
		if !slices.Equal(r.tensors[name], o.tensors[name]) {
			return false
		}
	}
	return r.version == o.version && maps.EqualFunc(r.adapter, o.adapter, slices.Equal)
}

func withRecorder(t *testing.T, opts Options) (*Engine, *recorder) {
	e := open(t, opts)
	r := &recorder{cfg: e.cfg}
	for _, s := range e.base.slots {
		r.names = append(r.names, s.name)
	}
	e.attach(r)
	return e, r
}

func TestResumedRunHasTheSameBits(t *testing.T) {
	lora := tiny("qwen2")
	lora.LoRA, lora.Seed = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}, 1
	loraCritic := critic()
	loraCritic.LoRA, loraCritic.Seed = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}, 1
	descent, momentum, muon, loraMuon := tiny("llama"), tiny("qwen3_moe"), tiny("llama3_bias_tied"), loraCritic
	eightBits := codedOptions(t)
	loraEightBits := eightBits
	loraEightBits.LoRA, loraEightBits.Seed = &engine.LoRASpec{LoraRank: 64, LoraAlpha: 8}, 1
	descent.Optimizer = engine.OptimizerSpec{Type: engine.SGD}
	momentum.Optimizer = engine.OptimizerSpec{Type: engine.SGD, Momentum: 0.9}
	muon.Optimizer = engine.OptimizerSpec{Type: engine.Muon, Momentum: 0.95, Nesterov: true}
	loraMuon.Optimizer = muon.Optimizer
	for name, opts := range map[string]Options{
		"all weights": tiny("llama"), "lora": lora, "critic": critic(), "critic with lora": loraCritic,
		"gradient descent": descent, "momentum": momentum, "muon": muon, "muon of a critic with lora": loraMuon,
		"more norms": tiny("gemma3_text"), "8 bits": eightBits, "8 bits with lora": loraEightBits,
	} {
		t.Run(name, func(t *testing.T) {
			opts.KeepPublished = true
			ctx, dir := context.Background(), t.TempDir()
			straight, sampler := withRecorder(t, opts)
			batch := sequences(t, true)
			train(t, straight, batch, 2)
			if err := publish(ctx, straight, 2); err != nil {
				t.Fatal(err)
			}
			train(t, straight, batch, 1) // the sampler is one step behind
			if err := straight.SaveState(ctx, dir); err != nil {
				t.Fatal(err)
			}
			if s, err := parseState(filepath.Join(dir, stateName)); err != nil || s.Format != 1 {
				t.Errorf("a state without a gradient has format %d, which older programs do not read; %v", s.Format, err)
			}
			resumed, second := withRecorder(t, opts)
			if err := resumed.LoadState(ctx, dir); err != nil {
				t.Fatal(err)
			}
			if !second.equal(sampler) {
				t.Error("the sampler of the resumed run has other weights")
			}
			train(t, straight, batch, 2)
			train(t, resumed, batch, 2)
			if !bytes.Equal(savedState(t, straight), savedState(t, resumed)) {
				t.Error("the states differ")
			}
			if straight.steps != 5 || resumed.steps != 5 {
				t.Errorf("steps: %d and %d, want 5", straight.steps, resumed.steps)
			}
		})
	}
}

// The load of the experts is of all passes of a step, also of those before a restart.
func TestStateHoldsTheLoadOfTheExperts(t *testing.T) {
	opts, dir, xs := tiny("qwen3_moe"), t.TempDir(), sequences(t, true)
	straight, resumed := open(t, opts), open(t, opts)
	add := func(e *Engine, xs []*trinity.Experience) {
		if _, err := e.ForwardBackward(t.Context(), whole(xs), weighted{}); err != nil {
			t.Fatal(err)
		}
	}
	add(straight, xs[:1])
	if err := errors.Join(straight.SaveState(t.Context(), dir), resumed.LoadState(t.Context(), dir)); err != nil {
		t.Fatal(err)
	}
	var of []trinity.Metrics
	for _, e := range []*Engine{straight, resumed} {
		add(e, xs[1:])
		metrics, err := e.OptimStep(t.Context(), adam)
		if err != nil {
			t.Fatal(err)
		}
		of = append(of, metrics)
	}
	if of[0]["router/load_max"] == 0 || !maps.Equal(of[0], of[1]) {
		t.Errorf("metrics %v, after a restart %v", of[0], of[1])
	}
	if err := open(t, tiny("llama")).LoadState(t.Context(), dir); err == nil {
		t.Error("a model without experts took a state of one with them")
	}
}

// savedState returns the saved state of an engine.
func savedState(t *testing.T, e *Engine) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := e.SaveState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, tensorsName))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestStateErrors(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	e, _ := withRecorder(t, tiny("llama"))
	if err := e.SaveState(ctx, dir); err != nil {
		t.Fatal(err)
	}
	wants := func(what string, err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: error is %v, want one with %q", what, err, text)
		}
	}
	lora := tiny("llama")
	lora.LoRA = &engine.LoRASpec{LoraRank: 2, LoraAlpha: 4}
	wants("other kind of run", open(t, lora).LoadState(ctx, dir), "LoRA off")
	for want, other := range map[string]engine.OptimizerSpec{
		"optimizer adamw; this engine has muon":                 {Type: engine.Muon},
		"optimizer adamw; this engine has sgd without momentum": {Type: engine.SGD},
	} {
		opts := tiny("llama")
		opts.Optimizer = other
		wants("other optimizer", open(t, opts).LoadState(ctx, dir), want)
	}
	wants("other model", open(t, tiny("qwen3")).LoadState(ctx, dir), "expected")
	wants("no state", e.LoadState(ctx, t.TempDir()), "state.json")
	if err := publish(ctx, e, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := e.OptimStep(ctx, adam); err != nil {
		t.Fatal(err)
	}
	wants("published weights lost", e.SaveState(ctx, dir), "KeepPublished")
	if err := safetensors.Write(filepath.Join(dir, tensorsName), nil, nil); err != nil {
		t.Fatal(err)
	}
	wants("tensors missing", open(t, tiny("llama")).LoadState(ctx, dir), "expected")
	wants("no sampler beside it", e.LoadState(ctx, dir), "has no published version")
	wants("nothing published", open(t, tiny("llama")).SavePublished(ctx, dir), "no version was published")
}

// A resumed run may publish less often than the run that saved the state, and through files instead
// of the sampler.
func TestPublishedWeightsOfAState(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	kept := tiny("llama")
	kept.KeepPublished = true
	lora := tiny("qwen2")
	lora.LoRA, lora.Seed, lora.KeepPublished = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}, 1, true
	for name, opts := range map[string]Options{"all weights": kept, "lora": lora} {
		t.Run(name, func(t *testing.T) {
			e, sampler := withRecorder(t, opts)
			train(t, e, sequences(t, true), 1)
			want := filepath.Join(t.TempDir(), "want")
			if err := errors.Join(publish(ctx, e, 1), e.SaveModel(ctx, want)); err != nil {
				t.Fatal(err)
			}
			train(t, e, sequences(t, true), 1)
			if err := e.SaveState(ctx, dir); err != nil {
				t.Fatal(err)
			}
			opts.KeepPublished = false
			resumed, second := withRecorder(t, opts)
			got := filepath.Join(t.TempDir(), "got")
			if err := errors.Join(resumed.LoadState(ctx, dir), resumed.SavePublished(ctx, got), resumed.SaveState(ctx, t.TempDir())); err != nil {
				t.Fatal(err)
			}
			if !second.equal(sampler) {
				t.Error("the sampler of the resumed run has other weights")
			}
			for _, file := range []string{"model.safetensors", "adapter_model.safetensors"} {
				a, _ := os.ReadFile(filepath.Join(want, file))
				b, _ := os.ReadFile(filepath.Join(got, file))
				if !bytes.Equal(a, b) {
					t.Errorf("%s has other weights than were published", file)
				}
			}
			// The copy is of the version that the state had. The run keeps none, so no step copies into it.
			if err := publish(ctx, resumed, 2); err != nil {
				t.Fatal(err)
			}
			train(t, resumed, sequences(t, true), 1)
			if err := resumed.SavePublished(ctx, t.TempDir()); err == nil || !strings.Contains(err.Error(), "KeepPublished") {
				t.Errorf("published weights that nobody asked to keep: %v", err)
			}
		})
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"format":1,"optimizer_steps":3,"published_version":2,"has_published":true,"published_weights_differ":true,"kernels":"avx2"}`), []byte{8, 0, 0, 0, 0, 0, 0, 0, '{', '}'})
	f.Add([]byte(`{"format":2,"expert_loads":[[1,2],null]}`), []byte{8, 0, 0, 0, 0, 0, 0, 0, '{', '}'})
	f.Add([]byte(`{"format":1,"lora":{"rank":4,"scale":2,"target_modules":["q_proj"]}}`), []byte{})
	e := open(f, tiny("llama"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, tensors []byte) {
		for name, content := range map[string][]byte{stateName: text, tensorsName: tensors} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if e.LoadState(context.Background(), dir) == nil {
			t.Error("a state without the model's tensors was loaded")
		}
	})
}
