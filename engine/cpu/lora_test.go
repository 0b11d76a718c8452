package cpu

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

func adapterOptions(name string) Options {
	opts := tiny(name)
	opts.LoRA = &engine.LoRASpec{Path: opts.ModelPath}
	return opts
}

func TestAdapterGradientsEqualAutograd(t *testing.T) {
	for _, name := range []string{"qwen2", "smollm3", "gemma3_text", "olmo3", "phi3", "granite", "lfm2"} { // phi3 has q, k and v as one matrix
		t.Run(name, func(t *testing.T) {
			var want reference
			readJSON(t, filepath.Join("testdata", name, "reference_lora.json.gz"), &want)
			tensor := tensorFile(t, filepath.Join("testdata", name, "gradients_lora.safetensors"))
			compareGradients(t, open(t, adapterOptions(name)), want, func(name string) []float32 {
				return tensor(strings.TrimSuffix(name, ".weight"))
			})
		})
	}
}

func TestAdaptersOnSomeModules(t *testing.T) {
	all := open(t, adapterOptions("qwen2"))
	opts := tiny("qwen2")
	opts.LoRA = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8, TargetModules: []string{"v_proj", "up_proj"}}
	some := open(t, opts)
	for _, s := range some.adapters.slots { // the same numbers where both have adapters, and the others of all silenced
		copy(some.adapters.in(some.trained, s.name), all.adapters.in(all.trained, s.name))
	}
	for _, s := range all.adapters.slots {
		if !some.adapters.has(s.name) && strings.Contains(s.name, "lora_B") {
			clear(all.adapters.in(all.trained, s.name))
		}
	}
	_, want := all.gradientOf(t, weighted{}, whole(sequences(t, true)))
	_, got := some.gradientOf(t, weighted{}, whole(sequences(t, true)))
	for _, s := range some.adapters.slots {
		if d := difference(some.adapters.in(got, s.name), all.adapters.in(want, s.name)); d > 1e-6 {
			t.Errorf("%s: gradient differs by %.2g relative", s.name, d)
		}
	}
	if n := some.Parameters(); n != 2*4*(32+16+32+40) {
		t.Errorf("%d trained parameters", n)
	}
}

func TestNewAdapterChangesNothingAndReferenceIsTheBase(t *testing.T) {
	ctx, batch := context.Background(), whole(sequences(t, true))
	opts := tiny("qwen2")
	opts.LoRA = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}
	e := open(t, opts)
	base, err := open(t, tiny("qwen2")).Forward(ctx, batch, trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := e.Forward(ctx, batch, trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	train(t, e, batch.Experiences, 2)
	trained, err := e.Forward(ctx, batch, trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	reference, err := e.Reference(ctx, batch)
	if err != nil {
		t.Fatal(err)
	}
	for i := range base {
		if !slices.Equal(fresh[i].Logprob, base[i].Logprob) || !slices.Equal(reference[i].Logprob, base[i].Logprob) {
			t.Errorf("sequence %d: an adapter with B = 0, or the reference, is not the base", i)
		}
	}
	if slices.Equal(trained[0].Logprob, base[0].Logprob) {
		t.Error("training changed nothing")
	}
}

// Publishing hands over the base once, and then the adapter alone.
func TestLaterPublicationsHoldOnlyTheAdapter(t *testing.T) {
	ctx := context.Background()
	e, sampler := withRecorder(t, adapterOptions("qwen2"))
	for version := range int64(3) {
		if err := publish(ctx, e, version); err != nil {
			t.Fatal(err)
		}
		if (sampler.tensors != nil) != (version == 0) {
			t.Errorf("version %d: %d tensors of the base", version, len(sampler.tensors))
		}
		for name, v := range sampler.tensors {
			if !slices.Equal(v, tensorOf(e.base, e.baseFlat, name)) {
				t.Errorf("%s is not the base's", name)
			}
		}
		for _, s := range e.adapters.slots {
			if !slices.Equal(sampler.adapter[s.name], e.adapters.in(e.trained, s.name)) {
				t.Errorf("version %d: %s is not what was trained", version, s.name)
			}
		}
		if sampler.version != version || sampler.lora.Scale() != e.adapters.Scale() {
			t.Errorf("version %d with scale %v", sampler.version, sampler.lora.Scale())
		}
		sampler.tensors = nil
		train(t, e, sequences(t, true), 1)
	}
}

// Adapters that PEFT wrote give the log-probabilities that PEFT recorded; one with dropout is not
// trained.
func TestForwardEqualsPEFT(t *testing.T) {
	var cases map[string][]struct {
		Prompt, Tokens []int32
		Logprobs       []float64
	}
	readJSON(t, "internal/sampler/testdata/adapters.json.gz", &cases)
	for _, name := range []string{"plain", "stable", "head"} {
		opts := tiny("llama")
		opts.LoRA = &engine.LoRASpec{Path: "internal/sampler/testdata/adapters/" + name}
		e := open(t, opts)
		for _, c := range cases[name] {
			stats, err := e.Forward(context.Background(), whole([]*trinity.Experience{allTrained(0, slices.Concat(c.Prompt, c.Tokens))}), trinity.Streams{})
			if err != nil {
				t.Fatal(err)
			}
			if d := worst(stats[0].Logprob[len(c.Prompt):], c.Logprobs); d > 1e-5 {
				t.Errorf("%s: %.2g nats apart", name, d)
			}
		}
	}
	opts := tiny("llama")
	opts.LoRA = &engine.LoRASpec{Path: "internal/sampler/testdata/adapters/partial"}
	if _, err := Open(opts); err == nil || !strings.Contains(err.Error(), "lora_dropout 0.1") {
		t.Errorf("an adapter with dropout: %v", err)
	}
}

// The files of a new adapter record its settings, and a resumed run uses them.
func TestRankStabilisedAdapterResumes(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	opts := tiny("qwen2")
	opts.LoRA = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 6, UseRslora: true, ExcludeModules: []string{"k_proj", "mlp.up_proj"}}
	e := open(t, opts)
	train(t, e, sequences(t, true), 2)
	if err := e.SaveModel(ctx, dir); err != nil {
		t.Fatal(err)
	}
	opts.LoRA = &engine.LoRASpec{Path: dir}
	again := open(t, opts)
	want, _ := e.Forward(ctx, whole(sequences(t, true)), trinity.Streams{})
	got, err := again.Forward(ctx, whole(sequences(t, true)), trinity.Streams{})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the saved adapter computes something else (%v)", err)
	}
	a := again.adapters
	if a.scale != 3 || !a.RSLoRA || !slices.Equal(a.ExcludeModules, []string{"k_proj", "mlp.up_proj"}) || len(a.slots) != 2*2*5 {
		t.Errorf("scale %v, %+v, %d tensors", a.scale, a.LoRA, len(a.slots))
	}
}

func TestAdapterErrors(t *testing.T) {
	for want, lora := range map[string]*engine.LoRASpec{
		"no linear map":  {LoraRank: 2, LoraAlpha: 2, TargetModules: []string{"nose_proj"}},
		"positive":       {LoraRank: 0, LoraAlpha: 2},
		"adapter_config": {Path: t.TempDir()},
		`exclude_modules: no linear map is called "ear_proj"`: {LoraRank: 2, LoraAlpha: 2, ExcludeModules: []string{"ear_proj"}},
	} {
		opts := tiny("qwen2")
		opts.LoRA = lora
		if _, err := Open(opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}
